"""Tensors: views, aliasing, in-place work, attributes, identities, torch's functions, dtypes and
devices."""

from __future__ import annotations

import math

import framejit
import pytest
import torch
import torch.nn.functional as F

from .harness import check, vec


def test_views_of_inputs_returned():
    def f(x):
        return x.view(-1), x[0], x.t(), x[..., 1:], x.expand(2, 2, 3), x.T

    check(f, vec(2, 3))


def test_views_of_intermediates_returned():
    def f(x):
        y = x + 1
        return y, y.view(-1), y[0], y.t()

    check(f, vec(2, 3))


def test_input_returned_untouched():
    def f(x, y):
        return x, x, y + 1

    check(f, vec(2), vec(2))


def test_no_op_methods_return_self():
    def f(x):
        return (
            x.contiguous() is x,
            x.to(torch.float32) is x,
            x.float() is x,
            x.view(2) is x,
            x.detach() is x,
            x.cpu() is x,
            x + 1,
        )

    check(f, vec(2))


def test_no_op_of_an_intermediate():
    def f(x):
        y = x + 1
        z = y.contiguous()
        return y is z, y, z

    check(f, vec(2))


def test_in_place_on_input():
    def f(x):
        y = x.add_(1)
        x.mul_(2)
        return y is x, y

    check(f, vec(3))


def test_in_place_on_view_of_input():
    def f(x):
        x[0].add_(5)
        x.t().mul_(2)
        return x.sum()

    check(f, vec(2, 3))


def test_in_place_operators():
    def f(x, y):
        z = x
        x += 1
        x -= y
        x *= 2
        x /= 3
        x **= 2
        x //= 1
        return z is x, x

    check(f, vec(3), vec(3))


def test_in_place_on_intermediate_with_alias():
    def f(x):
        y = x * 2
        z = y[0]
        y.add_(1)
        z.zero_()
        return y, z

    check(f, vec(2, 2))


def test_item_assignment():
    def f(x, mask):
        x[0] = 1
        x[1, :] = x[0]
        x[mask] = 7
        x[..., -1] = torch.ones(3)
        return x

    check(f, vec(3, 2), torch.tensor([[True, False]] * 3))


def test_item_assignment_with_index_tensor():
    def f(x, i):
        x[i] = x[i] + 1
        y = x.clone()
        y[i, 0] = -1
        return y

    check(f, vec(3, 2), torch.tensor([0, 2]))


def test_indexing_forms():
    def f(x, i):
        return (
            x[0],
            x[-1],
            x[1:3],
            x[:, None],
            x[..., 0],
            x[i],
            x[[0, 1]],
            x[0, 1],
            x[:, [1, 0]],
            x[::2],
        )

    check(f, vec(4, 2), torch.tensor([1, 0]))


def test_out_arguments():
    def f(x, out):
        y = torch.add(x, 1, out=out)
        torch.mul(x, 2, out=out)
        return y is out, y

    check(f, vec(3), vec(3))


def test_out_of_a_wrong_size_is_resized():
    def f(x, out):
        torch.add(x, 1, out=out)
        return out

    check(f, vec(3), torch.empty(0), graphs=None, breaks=None)


def test_shape_queries():
    def f(x):
        b, c = x.shape
        return (
            x.size(),
            x.size(0),
            x.dim(),
            x.ndim,
            x.numel(),
            len(x),
            x.stride(),
            x.view(c, b),
            x.shape[-1] * 2,
            x.is_contiguous(),
        )

    check(f, vec(2, 3))


def test_attribute_queries():
    def f(x):
        return (
            x.dtype,
            x.device,
            x.requires_grad,
            x.is_leaf,
            x.layout,
            x.is_cuda,
            x.element_size(),
            x.grad,
            x.itemsize,
            x + 1,
        )

    check(f, vec(2))


def test_type_of_tensor():
    def f(x, p):
        return (
            type(x) is torch.Tensor,
            type(p) is torch.nn.Parameter,
            x.__class__,
            p.__class__,
            type(x + 1),
            isinstance(p, torch.nn.Parameter),
            p + 1,
        )

    check(f, vec(2), torch.nn.Parameter(vec(2)))


def test_isinstance_of_intermediates():
    def f(x, p):
        y = p + 1
        return (
            isinstance(y, torch.Tensor),
            isinstance(y, torch.nn.Parameter),
            isinstance(y, (int, torch.nn.Parameter)),
            torch.is_tensor(y),
            isinstance(x, torch.FloatTensor),
            y,
        )

    check(f, vec(2), torch.nn.Parameter(vec(2)))


def test_data():
    def f(x):
        y = x.data
        y.add_(1)
        return y, y.requires_grad

    check(f, vec(2))


def test_data_of_a_parameter():
    def f(p, x):
        return p.data * x, p.detach() + 1

    check(f, torch.nn.Parameter(vec(2)), vec(2))


def test_data_assigned():
    def f(p, x):
        p.data = x * 2
        return p + 1

    check(f, torch.nn.Parameter(vec(2)), vec(2), graphs=None, breaks=None)


def test_grad_read():
    from .harness import strict_compile

    def f(p):
        return p.grad is None, p.grad * 2 if p.grad is not None else p + 1

    p, g = torch.nn.Parameter(vec(2)), strict_compile(f)
    for grad in (None, vec(2), vec(2) * 3, None):
        p.grad = grad
        (none, value), (expected_none, expected) = g(p), f(p)
        assert none is expected_none and torch.equal(value, expected)


def test_grad_assigned():
    def f(p, x):
        p.grad = x * 2
        return p.grad + 1

    check(f, torch.nn.Parameter(vec(2)), vec(2), graphs=None, breaks=None)


def test_grad_set_to_none():
    def f(p, x):
        p.grad = None
        return x + 1

    from .harness import strict_compile

    p, g = torch.nn.Parameter(vec(2)), strict_compile(f)
    for _ in range(2):
        p.grad = vec(2)
        assert torch.equal(g(p, vec(2)), vec(2) + 1) and p.grad is None


def test_requires_grad_changed():
    def f(x):
        y = x * 2
        x.requires_grad_(True)
        return (x * 3).requires_grad, y.requires_grad

    check(f, vec(2), graphs=None, breaks=None)


def test_requires_grad_of_an_intermediate():
    def f(x):
        y = (x * 2).requires_grad_()
        return y * 3

    check(f, vec(2), graphs=None, breaks=None)


@pytest.mark.parametrize("wanted", [False, True])
def test_requires_grad_assigned_to_a_new_tensor(wanted):
    def f(x):
        unit = torch.eye(3)
        unit.requires_grad = wanted
        return x @ unit, unit.requires_grad, unit

    check(f, vec(3))


def test_requires_grad_assigned_to_what_is_no_leaf():
    def f(p):
        y = p * 2
        try:
            y.requires_grad = True
        except RuntimeError as error:
            return y, str(error)

    check(f, torch.nn.Parameter(vec(2)), graphs=None, breaks=None)


def test_user_attribute_on_a_tensor():
    def f(x, y):
        y.tag = 5
        return y.tag + x

    check(f, vec(2), vec(2), graphs=None, breaks=None)


def test_backward_inside():
    def f(p, x):
        loss = (p * x).sum()
        loss.backward()
        return p.grad * 2

    check(f, torch.nn.Parameter(vec(2)), vec(2), graphs=None, breaks=None)


def test_tensor_stored_into_existing_containers():
    class Box:
        pass

    def f(x, items, table, box):
        y = x + 1
        items[0] = y
        table["y"] = y
        box.y = y
        y.add_(1)
        return y

    check(f, vec(2), [0], {}, Box())


def test_same_tensor_passed_twice():
    def f(x, y):
        x.add_(1)
        return x is y, y

    t = vec(3)
    check(f, t, t)


def test_overlapping_inputs():
    def f(x, y):
        x.add_(1)
        return y * 2

    base = vec(4)
    check(f, base[:3], base[1:])


def test_operators_named_like_keywords_write_nothing():
    def f(x):
        wide = (x > 0).expand(4, 3)
        return wide & wide[:, :1], wide | x.bool()

    check(f, vec(3))


def test_aliasing_changes_between_calls():
    from .harness import strict_compile

    def f(x, y):
        x.add_(1)
        return y * 2

    g = strict_compile(f)
    a, b = vec(2), vec(2)
    assert torch.equal(g(a, b), vec(2) * 2)
    c = vec(2)
    assert torch.equal(g(c, c), (vec(2) + 1) * 2)


def test_identity_between_tensors():
    def f(x, y):
        a = x + 1
        b = a
        return a is b, x is y, a is x, a in [a], [t for t in [x, y] if t is x]

    check(f, vec(2), vec(2))


def test_tensors_compared_to_none_and_numbers():
    def f(x):
        return x == None, x != None, x == 1, x > 0.3, 1 < x, x is None  # noqa: E711

    check(f, vec(2))


def test_python_numbers_and_tensors():
    def f(x):
        return (
            1 + x,
            2 - x,
            3 * x,
            1 / x,
            2**x,
            x % 2,
            7 // x,
            -x,
            +x,
            abs(x),
            ~(x > 0.5),
            x @ x,
            pow(x, 2),
        )

    check(f, vec(2))


def test_bitwise_operators():
    def f(i):
        return i & 1, i | 2, i ^ 3, i << 1, i >> 1, 1 & i, ~i

    check(f, torch.tensor([1, 2, 3]))


def test_creation():
    def f(x):
        return (
            torch.zeros(2), torch.ones_like(x), torch.arange(3), torch.full((2,), 1.5), torch.tensor([1, 2]), torch.tensor(3.0),
            x.new_ones(2), torch.eye(2), torch.linspace(0, 1, 3), torch.empty(0), torch.as_tensor([1.0]), torch.tensor([[1, 2], [3, 4]]),
        )  # fmt: skip

    check(f, vec(2))


def test_tensor_from_values_made_inside():
    def f(x):
        n = x.shape[0]
        return torch.tensor([n, n + 1]) + x, torch.tensor([float(i) for i in range(n)])

    check(f, vec(2))


def test_torch_functions_in_many_spellings():
    def f(x):
        return (
            torch.add(x, 1),
            x.add(1),
            torch.Tensor.add(x, 1),
            torch.ops.aten.add(x, 1),
            F.relu(x),
            torch.nn.functional.softmax(x, dim=-1),
            torch.sin(input=x),
        )

    check(f, vec(2))


def test_multiple_results():
    def f(x):
        values, indices = x.max(dim=0)
        top = torch.topk(x, 1)
        a, b = x.chunk(2)
        return (
            values,
            indices,
            top.values,
            top,
            a,
            b,
            x.split(1),
            torch.sort(x)[0],
            x.min(0).indices,
            torch.unbind(x),
        )

    check(f, vec(2, 2))


def test_list_arguments():
    def f(x, items):
        return (
            torch.cat([x, x + 1]),
            torch.stack(items),
            torch.cat(tuple(items), dim=0),
            torch.einsum("i,i->", x, x),
        )

    check(f, vec(2), [vec(2), vec(2)])


def test_dtypes_and_devices():
    def f(x, dtype, device):
        return (
            x.to(dtype),
            x.to(device),
            x.to(device, dtype),
            x.type(torch.int64),
            x.dtype == torch.float32,
            torch.zeros(1, dtype=dtype, device=device),
            x.double().dtype,
            dtype.is_floating_point,
            str(device),
            torch.finfo(x.dtype).max,
        )

    check(f, vec(2), torch.float64, torch.device("cpu"))


def test_dtype_changes_between_calls():
    from .harness import strict_compile

    def f(x):
        return x + 1 if x.dtype == torch.float32 else x * 2

    g = strict_compile(f)
    assert torch.equal(g(vec(2)), vec(2) + 1)
    assert torch.equal(g(vec(2).double()), vec(2).double() * 2)


def test_shape_and_stride_change_between_calls():
    from .harness import strict_compile

    def f(x):
        return x.reshape(-1) * x.shape[0]

    g = strict_compile(f)
    for x in (vec(2, 3), vec(3, 2), vec(3, 2).t(), vec(4), vec(2, 3)):
        out = g(x)
        assert torch.equal(out, x.reshape(-1) * x.shape[0])


def test_constants_of_math():
    def f(x):
        return x * math.pi, math.sqrt(x.shape[0]), math.floor(2.5), math.inf, x + math.log(2)

    check(f, vec(2))


def test_iteration_over_tensors():
    def f(x):
        rows = [row * 2 for row in x]
        a, b = x
        return rows, a, b, list(x), [*x], list(enumerate(x))

    check(f, vec(2, 2))


def test_tensor_dictionary_membership():
    def f(x):
        return 1 in [1, 2], x.shape in [(2,), (3,)], None in [None], x + 1

    check(f, vec(2))


def test_global_and_closure_tensors():
    weights = [vec(2), vec(2)]

    def f(x):
        weights[0].add_(x)
        return x * weights[1]

    check(f, vec(2))


def test_view_of_input_stored_in_a_list():
    def f(x, items):
        items.append(x[0])
        items.append(x)
        items[0].add_(1)

    check(f, vec(2, 2), [])


def test_grad_fn_is_kept():
    def f(x, p):
        y = x * p
        return y, y.detach(), y.requires_grad, y.is_leaf, p.requires_grad

    check(f, vec(2), torch.nn.Parameter(vec(2)), backward=True)


def test_gradients_through_views_and_in_place():
    def f(x):
        y = x * 2
        y[0] = 0
        y.mul_(3)
        return y.view(-1), y.t() + 1

    check(f, vec(2, 2, grad=True), backward=True)


def test_gradient_through_input_mutation():
    def f(x, buffer):
        buffer.copy_(x * 2)
        return buffer.sum()

    check(f, vec(2, grad=True), vec(2), backward=True)


def test_non_leaf_input_with_grad():
    from .harness import strict_compile

    def f(x):
        return x * 3

    p = vec(2, grad=True)
    (strict_compile(f)(p * 2)).sum().backward()
    assert torch.equal(p.grad, torch.full((2,), 6.0))


def test_complex_and_bool_and_int_tensors():
    def f(c, b, i):
        return c.real, c * 1j, b.any(), b.logical_not(), i.sum(), i / 2, i.float().mean()

    check(f, torch.tensor([1 + 2j]), torch.tensor([True, False]), torch.tensor([1, 2]))


def test_zero_size_and_scalar_tensors():
    def f(e, s):
        return e.sum(), e.shape, s * 2, s.dim(), e + s

    check(f, torch.empty(0, 3), torch.tensor(2.0))


def test_where_and_masks():
    def f(x):
        mask = x > 0.4
        return (
            torch.where(mask, x, -x),
            x.masked_fill(mask, 0),
            x.clamp(min=0.3),
            (mask & ~mask).sum(),
        )

    check(f, vec(4))


def test_metadata_changed_in_place():
    def f(x):
        y = x * 2
        y.unsqueeze_(0)
        y.t_()
        return y

    check(f, vec(2), graphs=None, breaks=None)


def test_metadata_of_an_input_changed_in_place():
    def f(x):
        x.unsqueeze_(0)
        return x.shape, x + 1

    check(f, vec(2), graphs=None, breaks=None)


def test_tensor_methods_as_values():
    def f(x):
        add, view = x.add, x.view
        return add(1), view(-1), getattr(x, "mul")(2), list(map(torch.sin, [x]))  # noqa: B009

    check(f, vec(2))


def test_numpy():
    def f(x):
        return x.numpy().sum() + x

    check(f, vec(2), graphs=None, breaks=None)


def test_item_and_tolist():
    def f(x):
        n = x.sum().item()
        return x * n, x.tolist()

    check(f, vec(2))
    with framejit.config.patch(capture_scalar_outputs=False):
        check(f, vec(2), graphs=2, breaks=("data-dependent-value", "data-dependent-value"))


def test_int_and_float_and_bool_of_tensor():
    def f(x):
        return int(x[0] * 10) + x, float(x[1]), bool(x[0] > 0)

    check(f, vec(2), graphs=None, breaks=None)


def test_hash_and_id():
    def f(x):
        return hash(x) == hash(x), id(x) == id(x), x + 1

    check(f, vec(2), graphs=None, breaks=None, again=False)


def test_deepcopy_and_clone():
    import copy

    def f(x):
        return x.clone(), copy.deepcopy(x), copy.copy(x)

    check(f, vec(2), graphs=None, breaks=None)


def test_text_of_a_tensor():
    def f(x):
        return f"{x}", str(x + 1), f"{x.sum():.3f}"

    check(f, vec(2), graphs=None, breaks=None)


def test_nonzero_has_a_size_of_its_own():
    def f(x):
        return x.nonzero() + 1, x[x > 0.3] * 2

    check(f, vec(4), graphs=None, breaks=None)
