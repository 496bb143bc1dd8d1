"""Operators on fake tensors.

In: an operator and its arguments. Out: the result's sizes, dtype and strides, or the error that
torch raises for them. Nothing here reads or writes a tensor's memory.

Where a result comes from, the first that has one:

    static sizes                                       sizes that vary
    1. the cache of the process  fake_results.py       1. a rule         fake_rules.py
    2. a view, by torch's C++    fake_results.py       2. a static twin  static_twins.py
    3. a rule                    fake_rules.py         3. torch's fake operator
    4. an example                results_by_example.py
    5. a meta kernel             fake_results.py
    6. torch's fake operator     fake_execution.py

For numbers of the program that are tensors: constant_results.py, then torch's fake operator.

    running an operator     operation_runner, fake_execution, torch_log, cuda_guard
    making fake tensors     fake_creation, fakes_by_metadata, meta_converter, fake_wrappers,
                            distributed_layout
    results                 fake_results, results_by_example, static_twins, constant_results
    rules                   fake_rules, operator_rules, view_rules, indexing_rules, factory_rules,
                            convolution_rules
    strides                 elementwise_layouts, elementwise_strides
    sizes that vary         size_products, size_fixing, known_items, known_numbers
    what torch refuses      refused_dtypes, refused_writes, mixed_dtypes
    versions                foreach_writes
"""
