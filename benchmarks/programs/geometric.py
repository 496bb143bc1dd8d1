"""Graph neural networks (torch_geometric) over graphs of varying sizes."""
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .program import Compile, Step, make_generator, program


def random_graph(seed: int, features: int = 16) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features of 20 to 60 nodes, edges between them, and a class of each."""
    generator = make_generator(seed)
    nodes = int(torch.randint(20, 60, (), generator=generator))
    edges = torch.randint(0, nodes, (2, 4 * nodes), generator=generator)
    return torch.randn(nodes, features, generator=generator), edges, torch.randint(0, 4, (nodes,), generator=generator)


def training(model: nn.Module, compile: Compile) -> Step:
    model = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(number: int) -> Any:
        x, edges, classes = random_graph(number)
        loss = F.cross_entropy(model(x, edges), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("GCN, graphs of varying sizes", "torch_geometric")
def gcn(compile: Compile) -> Step:
    from torch_geometric.nn import GCNConv  # noqa: PLC0415 - may not be installed

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(16, 32), GCNConv(32, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.second(F.dropout(self.first(x, edges).relu(), 0.0, self.training), edges)

    return training(GCN(), compile)


@program("GraphSAGE and attention, graphs of varying sizes", "torch_geometric")
def sage(compile: Compile) -> Step:
    from torch_geometric.nn import GATConv, SAGEConv, global_mean_pool  # noqa: PLC0415 - may not be installed

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = SAGEConv(16, 32), GATConv(32, 8, heads=2), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            x = self.second(self.first(x, edges).relu(), edges)
            return self.head(x + global_mean_pool(x, None))

    return training(Net(), compile)


@program("TransformerConv, graphs of varying sizes", "torch_geometric")
def transformer_conv(compile: Compile) -> Step:
    from torch_geometric.nn import TransformerConv  # noqa: PLC0415 - may not be installed

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = TransformerConv(16, 16, heads=2), TransformerConv(32, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x, edges).relu(), edges)

    return training(Net(), compile)


@program("molecules: batches of small graphs with edge features", "torch_geometric")
def molecules(compile: Compile) -> Step:
    from torch_geometric.data import Batch, Data  # noqa: PLC0415 - may not be installed
    from torch_geometric.nn import GINEConv, global_add_pool  # noqa: PLC0415 - may not be installed

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                GINEConv(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)), edge_dim=4) for _ in range(2)
            )
            self.head = nn.Linear(16, 1)

        def forward(self, data: Any) -> torch.Tensor:
            x = data.x
            for layer in self.layers:
                x = layer(x, data.edge_index, data.edge_attr).relu()
            return self.head(global_add_pool(x, data.batch)).squeeze(-1)

    model = compile(Net())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step(number: int) -> Any:
        generator = make_generator(number)
        graphs = []
        for _ in range(6):
            atoms = int(torch.randint(4, 12, (), generator=generator))
            edges = torch.randint(0, atoms, (2, 2 * atoms), generator=generator)
            features = torch.randn(2 * atoms, 4, generator=generator)
            graphs.append(Data(x=torch.randn(atoms, 16, generator=generator), edge_index=edges, edge_attr=features))
        data = Batch.from_data_list(graphs)
        loss = F.mse_loss(model(data), torch.arange(6.0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
