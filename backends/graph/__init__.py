"""Facts about captured graphs, and passes over them.

In: an fx graph with the fake results of its nodes. Out: which inputs it writes, which tensors share
memory, which nodes may raise or draw random numbers.

    a node                  node_targets, fake_values, number_arguments, unread_nodes,
                            size_oblivious, whole_upsampling
    nodes of framejit       opaque_call, extracted_calls, higher_order_call, distributed_call,
                            graph_constant, tensor_hooks
    memory and writes       memory, memory_formats, exact_strides, mutations, hidden_writes,
                            overlapping_writes, version_counters
    gradients               gradient_history, grad_mode, mode_switches
    numbers                 random_draws, random_generators, random_states, product_precision
    sizes from values       data_dependent_sizes, size_checks
    inputs                  example_inputs, separate_inputs, memory_copies, wrappers
    results                 views_of_results, views_without_writes, detached_results,
                            freed_results, protected_results
    errors                  runtime_errors, eager_fallback, supported
    several processes       collectives
    graphs made of graphs   passes, operator_recorder, copies, graph_structure, graph_rows,
                            passed_values, tracing_lock
"""
