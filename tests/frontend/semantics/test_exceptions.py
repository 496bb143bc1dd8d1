"""Exceptions: caught inside, leaving the frame, from the graph at run time, with their chains and
lines.

PYTEST_DONT_REWRITE: `assert` in a compiled function must be Python's own.
"""

from __future__ import annotations

import contextlib
import decimal
import sys

import framejit
import pytest
import torch
import torch.nn.functional as F

from .harness import check, strict_compile, vec


class Custom(Exception):
    def __init__(self, code, detail="d"):
        super().__init__(code, detail)
        self.code = code

    def __str__(self):
        return f"custom {self.code}"


class Plain(ValueError):
    pass


def raises(depth, error):
    if depth == 0:
        raise error
    return raises(depth - 1, error)


def test_caught_at_once():
    def f(x):
        try:
            y = x + 1
            raise ValueError("v", 3)
        except ValueError as error:
            return y, error.args, str(error)

    check(f, vec(2))


def test_try_else_finally():
    def f(x, fail):
        log = []
        try:
            log.append("try")
            if fail:
                raise Plain("p")
        except (KeyError, ValueError) as error:
            log.append(type(error).__name__)
            x = x + 1
        else:
            log.append("else")
            x = x * 2
        finally:
            log.append("finally")
            x = x - 1
        return x, log

    check(f, vec(2), True)
    check(f, vec(2), False)


def test_return_in_finally():
    def f(x):
        try:
            raise ValueError
        finally:
            return x + 1  # noqa: B012

    check(f, vec(2))


def test_return_through_finally():
    def f(x, log):
        for i in range(3):
            try:
                if i == 1:
                    return x + i
            finally:
                log.append(i)

    check(f, vec(2), [])


def test_nested_handlers_and_reraise():
    def f(x, log):
        try:
            try:
                raise KeyError("inner")
            except KeyError:
                log.append("first")
                raise
            finally:
                log.append("finally")
        except KeyError as error:
            log.append(error.args[0])
            try:
                raise ValueError("second") from error
            except ValueError as other:
                return type(other.__cause__).__name__, type(other.__context__).__name__, x + 1

    check(f, vec(2), [])


def test_exception_from_a_callee_caught():
    def f(x):
        try:
            raises(3, Plain("deep"))
        except Plain as error:
            return str(error), x + 1

    check(f, vec(2))


def test_exception_object_returned():
    def f(x):
        try:
            raise Custom(3)
        except Custom as error:
            kept = error
        return kept, kept.code, str(kept), x + 1

    check(f, vec(2), breaks=("exception-leaves",))  # its traceback is kept with it


def test_exception_made_and_returned():
    def f(x):
        return ValueError("a", 1), Custom(4), KeyError, x + 1

    check(f, vec(2))


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize(
    "error",
    [ValueError("v"), Custom(7), KeyError("k"), StopIteration(3)],
    ids=lambda e: type(e).__name__,
)
def test_leaving(depth, error):
    def f(x, error):
        y = x + 1
        raises(depth, error)
        return y

    check(f, vec(2), error, graphs=None, breaks=None)


def test_leaving_made_inside():
    def f(x, items):
        items.append(x + 1)
        raise ValueError(f"no {len(items)}")

    check(f, vec(2), [], graphs=None, breaks=None)


def test_leaving_made_three_deep():
    def c(x, items):
        items.append(x * 2)
        raise Plain(x.shape)

    def b(x, items):
        items.append("b")
        return c(x, items) + 1

    def f(x, items):
        y = x + 1
        items.append(y)
        return b(y, items)

    check(f, vec(2), [], graphs=None, breaks=None)


def test_leaving_from_a_handler():
    def f(x, d):
        try:
            return d["no"]
        except KeyError as error:
            raise Plain("translated") from error

    check(f, vec(2), {}, graphs=None, breaks=None, skipped=True)


def test_leaving_through_finally():
    def f(x, log):
        try:
            y = x + 1
            raise Plain("p")
        finally:
            log.append(y * 2)

    check(f, vec(2), [], graphs=None, breaks=None, skipped=True)


def test_leaving_with_context():
    def f(x):
        try:
            raise KeyError("k")
        except KeyError:
            raise ValueError("v")  # noqa: B904

    check(f, vec(2), graphs=None, breaks=None, skipped=True)


@pytest.mark.parametrize("text", ["[][1]", "{}['k']", "1/0", "None.x", "x.nothing", "len(3)", "int('z')", "'a' + 1", "undefined", "(1, 2)[5]", "[1].index(2)", "next(iter([]))", "x()", "3()", "[].pop()", "{1: 2}.nothing", "iter(3)", "x + 'a'", "not_here.y", "range(1)[3]", "sorted([1, 'a'])", "[1] + (2,)", "None + 1", "'a'.nothing", "object().z", "max([])", "sum(['a'])", "isinstance(1, 2)", "[1, 2].remove(3)", "'abc'['x']", "[1]['x']", "{[]: 1}", "set([[]])", "dict([1])", "float('q')", "abs('a')", "-'a'", "1 < 'a'", "[1] < 2", "len(x, x)", "zip(1)", "getattr(3, 'zz')", "list(3)", "3[0]", "f'{3:zz}'"])  # fmt: skip
def test_builtin_errors_leave_alike(text):
    scope = {}
    source = f"def f(x):\n    y = x + 1\n    z = {text}\n    return y, z"
    exec(compile(source, __file__, "exec"), scope)
    check(scope["f"], vec(2), graphs=None, breaks=None, skipped=True)


@pytest.mark.parametrize("text", ["[][1]", "{}['k']", "1/0", "None.x", "len(3)", "int('z')", "'a' + 1", "(1, 2)[5]", "[1].index(2)", "[].pop()", "iter(3)", "sorted([1, 'a'])", "[1] + (2,)", "None + 1", "'a'.nothing", "object().z", "max([])", "[1, 2].remove(3)", "'abc'['x']", "[1]['x']", "-'a'", "1 < 'a'", "[1] < 2", "list(3)", "3[0]", "min([])", "{}.pop('z')", "set().pop()", "{1}.remove(2)", "().index(1)", "[1].pop(4)", "range(0).index(1)", "chr(-1)"])  # fmt: skip
def test_builtin_errors_caught_alike(text):
    scope = {}
    source = f"def f(x):\n    y = x + 1\n    try:\n        z = {text}\n    except Exception as e:\n        return type(e), e.args, y\n    return y, z"
    exec(compile(source, __file__, "exec"), scope)
    check(scope["f"], vec(2), graphs=None, breaks=None, skipped=True)


def test_torch_shape_error():
    def f(x, y, log):
        log.append(1)
        z = x + 1
        return z + y

    check(f, vec(2), vec(3), [], graphs=None, breaks=None)


def test_torch_shape_error_caught():
    def f(x, y):
        try:
            return x + y
        except RuntimeError as error:
            return str(error), x * 2

    check(f, vec(2), vec(3), graphs=None, breaks=None)


def test_embedding_out_of_range():
    def f(w, i, log):
        log.append(1)
        y = F.embedding(i, w)
        log.append(2)
        return y * 2

    check(f, vec(2, 2), torch.tensor([5]), [], graphs=None, breaks=None)


def test_embedding_out_of_range_caught():
    def f(w, i):
        try:
            return F.embedding(i, w) * 2
        except IndexError as error:
            return str(error), w + 1

    check(f, vec(2, 2), torch.tensor([5]), graphs=None, breaks=None)


def test_run_time_error_after_an_in_place_change():
    def f(w, i, log):
        w.add_(1)
        log.append(3)
        return F.embedding(i, w)

    check(f, vec(2, 2), torch.tensor([5]), [], graphs=None, breaks=None, lines=False)


def test_run_time_error_in_a_callee():
    def g(w, i):
        return F.embedding(i, w)

    def f(w, i):
        return g(w * 2, i)

    check(f, vec(2, 2), torch.tensor([5]), graphs=None, breaks=None)


def test_run_time_error_after_a_break():
    def f(w, i):
        print("before")
        y = w + 1
        return F.embedding(i, y)

    check(f, vec(2, 2), torch.tensor([5]), graphs=None, breaks=None)


def test_run_time_error_sometimes():
    from .harness import strict_compile

    def f(w, i, log):
        log.append("in")
        try:
            return F.embedding(i, w) * 2
        finally:
            log.append("out")

    g, log = strict_compile(f), []
    assert torch.equal(g(vec(2, 2), torch.tensor([1]), log), vec(2, 2)[1:] * 2)
    with pytest.raises(IndexError):
        g(vec(2, 2), torch.tensor([9]), log)
    assert torch.equal(g(vec(2, 2), torch.tensor([0]), log), vec(2, 2)[:1] * 2)
    assert log == ["in", "out"] * 3


def test_break_in_try_body():
    def f(x, log):
        try:
            y = x + 1
            print("body")
            z = y * 2
        except ValueError:
            log.append("no")
            raise
        else:
            log.append("else")
        finally:
            log.append("finally")
        return z

    check(f, vec(2), [], graphs=2, breaks=("output",))


def test_break_that_raises_into_a_handler():
    import framejit

    @framejit.disable
    def fails():
        raise KeyError("from outside")

    def f(x):
        y = x + 1
        try:
            z = x * 2
            fails()
        except KeyError as error:
            return error.args, y, z, x * 3
        return None

    check(f, vec(2), graphs=2, breaks=("disabled-call",))


def test_break_in_a_handler():
    def f(x):
        try:
            raise KeyError("k")
        except KeyError as error:
            y = x + 1
            print("handling", error)
            z = y * 2
        return y, z, x * 3

    check(f, vec(2), graphs=None, breaks=None)


def test_break_in_finally():
    def f(x):
        try:
            y = x + 1
        finally:
            print("finally")
            y = y * 2
        return y

    check(f, vec(2), graphs=2, breaks=("output",))


def test_break_in_finally_while_raising():
    def f(x, log):
        try:
            try:
                y = x + 1
                raise KeyError("k")
            finally:
                print("finally")
                log.append(y * 2)
        except KeyError:
            return x * 3

    check(f, vec(2), [], graphs=None, breaks=None)


def test_break_in_nested_handlers():
    import sys

    import framejit

    @framejit.disable
    def current():
        return sys.exc_info()[0]

    def f(x):
        out = []
        try:
            {}["k"]  # noqa: B018
        except KeyError:
            out.append(current())
            try:
                [][1]  # noqa: B018
            except IndexError:
                out.append(current())
                x = x + 1
            out.append(current())
        out.append(current())
        return out, x * 2

    check(f, vec(2), graphs=None, breaks=None, skipped=True)


def test_bare_raise_after_a_break_in_a_handler():
    import framejit

    @framejit.disable
    def fails():
        raise KeyError("k")

    def f(x):
        try:
            fails()
        except KeyError:
            y = x + 1
            print(y.shape)
            raise

    check(f, vec(2), graphs=None, breaks=None)


def test_context_of_exceptions_after_a_break():
    import framejit

    @framejit.disable
    def fails():
        raise KeyError("k")

    def f(x):
        try:
            fails()
        except KeyError:
            y = x + 1
            raise Plain(y.shape)  # noqa: B904

    check(f, vec(2), graphs=None, breaks=None)


def test_exception_groups():
    def f(x):
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as group:
            return_value = len(group.exceptions)
        except* KeyError:
            return_value = 5
        return return_value, x + 1

    check(f, vec(2), graphs=None, breaks=None, skipped=True)


def test_warnings():
    import warnings

    def f(x):
        y = x + 1
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.warn("careful", stacklevel=1)
        return y * 2, len(seen), str(seen[0].message)

    check(f, vec(2), graphs=None, breaks=None)


def test_add_note_and_attributes():
    def f(x):
        try:
            raise ValueError("v")
        except ValueError as error:
            error.extra = 5
            return error.extra, x + 1

    check(f, vec(2))


def test_assertion_error_message():
    def f(x, n):
        assert n > 3, ("n", n)
        return x + 1

    check(f, vec(2), 1, graphs=None, breaks=None)


def test_recursion_error():
    def deep(n):
        return deep(n + 1)

    def f(x):
        y = x + 1
        try:
            deep(0)
        except RecursionError:
            return y * 2

    check(f, vec(2), graphs=None, breaks=None)


def test_changes_of_an_existing_exception_are_replayed():
    def f(x, error):
        error.add_note("seen")
        error.code = 7
        return x + 1, error.__notes__

    check(f, vec(2), ValueError(1), graphs=None, breaks=None)


def test_an_existing_exception_raised_is_pythons_to_raise():
    def f(x, error):
        y = x + 1
        try:
            raise error
        except ValueError as caught:
            y = y * 2
            lines = caught.__traceback__.tb_lineno
        return y, lines

    check(f, vec(2), ValueError(1), graphs=2, breaks=None)


def test_contexts_of_exceptions_made_inside():
    def f(x, table):
        y = x + 1
        try:
            try:
                raise KeyError("a")
            except KeyError as first:
                try:
                    table["missing"]
                except KeyError as second:
                    assert second.__context__ is first
                    raise ValueError from second
        except ValueError as third:
            return y, third.__cause__ is third.__context__, type(third.__context__.__context__)

    check(f, vec(2), {})


def test_a_stop_iteration_thrown_into_a_generator():
    @contextlib.contextmanager
    def manager():
        yield

    def f(x):
        try:
            with manager():
                raise StopIteration("spam")
        except StopIteration as error:
            return x + 1, error.args

    check(f, vec(2), graphs=None, breaks=None)


def test_a_cell_bound_and_unbound_again():
    def f(x):
        try:
            raise ValueError(1)
        except ValueError as error:  # noqa: F841 - it is used below
            show = lambda: error  # noqa: E731
            y = x + len(show().args)
        print("break")
        try:
            show()
        except NameError as unbound:
            return y * 2, str(unbound)

    check(f, vec(2), graphs=2, breaks=None)


def test_the_traceback_of_an_exception_that_is_kept():
    def f(x, kept):
        y = x + 1
        for n in (1, 2):
            try:
                kept[n]
            except KeyError as error:
                caught = error
        print("break")
        return y * 2, caught.__traceback__.tb_lineno

    check(f, vec(2), {}, graphs=None, breaks=None)


def test_equality_by_a_method_in_c():
    def f(x, one, other):
        return x + 1, one == other, one != other, one == 1, 1 == one

    check(f, vec(2), decimal.Decimal(1), decimal.Decimal("1.0"), graphs=None, breaks=None)


def test_groups_that_python_refuses_or_narrows():
    def f(x):
        made = BaseExceptionGroup("all", [ValueError(1)])
        told = []
        for args in (("a", []), ("a", [1]), (1, [ValueError()]), ("a",)):
            try:
                ExceptionGroup(*args)
            except (TypeError, ValueError) as error:
                told.append(type(error))
        return x + 1, type(made), told

    check(f, vec(2), graphs=None, breaks=None)


def asks_for_it(x):
    return x + 1, repr(sys.exc_info()[1]), sys.exc_info()[0]


def sees_it_as_context(x):
    try:
        raise KeyError("inner")
    except KeyError as error:
        return x + 1, repr(error.__context__)


def raises_it_again(x):
    try:
        raise
    except (RuntimeError, LookupError) as error:
        return x + 1, repr(error)


def handles_one_of_its_own(x):
    before = sys.exc_info()[1]
    try:
        raise KeyError
    except KeyError:
        inside = sys.exc_info()[0]
    return x + 1, inside, sys.exc_info()[1] is before


@pytest.mark.parametrize(
    "function", [asks_for_it, sees_it_as_context, raises_it_again, handles_one_of_its_own]
)
def test_called_while_an_exception_is_handled(function):
    def outside(do):
        found = [do(vec(2))]
        try:
            raise IndexError("outer")
        except IndexError:
            found += [do(vec(2)), do(vec(2))]
        return [*found, do(vec(2))]

    compiled = strict_compile(function)
    assert [one[1:] for one in outside(compiled)] == [one[1:] for one in outside(function)]


class Told:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        return self

    def __exit__(self, *of):
        print("", end="")
        self.log.append(of[2].tb_lineno - of[2].tb_frame.f_code.co_firstlineno)


def test_what_is_handled_while_something_is_compiled_keeps_its_traceback():
    def f(x, log):
        try:
            with Told(log):
                1 / 0  # noqa: B018 - it raises
        except ZeroDivisionError as error:
            caught = error
        return (
            x + 1,
            caught.__traceback__.tb_lineno - caught.__traceback__.tb_frame.f_code.co_firstlineno,
        )

    check(f, vec(2), [], graphs=None, breaks=None, again=False)


ASKED = []


class Asking(type):
    def __subclasscheck__(cls, other):
        ASKED.append(other.__name__)
        return True


class Asked(Exception, metaclass=Asking):
    pass


def test_except_star_asks_no_metaclass():
    def f(x):
        taken = []
        try:
            raise ExceptionGroup(
                "g", [ValueError(1), ExceptionGroup("h", [TypeError(3), KeyError(4)])]
            )
        except* Asked:
            taken.append("asked")
        except* (TypeError, ValueError, KeyError) as group:
            taken.append(len(group.exceptions))
        return x + 1, taken

    check(f, vec(2), globals=("ASKED",), graphs=None, breaks=None, skipped=True)


def test_a_break_in_each_handler_of_except_star():
    def f(x, n):
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* KeyError as group:
            print(repr(group), n)
            x = x * 2
        except* (TypeError, ValueError) as group:
            print(repr(group), n)
            x = x + 3
        return x + 1

    check(f, vec(2), 1, graphs=None, breaks=None)


def test_isinstance_looks_no_further_than_it_has_to():
    def f(x, n):
        fits = isinstance(n, (int, 3)), isinstance(n, ((str, int), 3)), issubclass(bool, (int, 3))
        try:
            isinstance(n, (str, 3))
        except TypeError as error:
            return x + 1, fits, str(error)

    check(f, vec(2), 1)


def test_a_break_in_an_exception_groups_handlers():
    def in_the_second(x, log):
        try:
            raise ExceptionGroup("group", [KeyError("k"), ValueError(1)])
        except* ValueError as some:
            log.append(str(some))
        except* KeyError as some:
            framejit.graph_break()
            log.append((str(some), repr(sys.exc_info()[1])))
        return x + 1, sys.exc_info()[0]

    def before_the_raise(x, log):
        try:
            if x.sum() > 0:
                log.append(1)
            raise ExceptionGroup("group", [KeyError("k"), ValueError(1)])
        except* ValueError as some:
            log.append([type(e).__name__ for e in some.exceptions])
        except* Exception as some:
            log.append([type(e).__name__ for e in some.exceptions])
        return x + 1

    def what_is_left(x, log):
        try:
            try:
                raise ExceptionGroup("group", [KeyError("k"), ValueError(1)])
            except* ValueError:
                framejit.graph_break()
                log.append(1)
        except ExceptionGroup as left:
            log.append(repr(left))
        return x + 1

    check(in_the_second, vec(2), [], graphs=None, breaks=None)
    check(before_the_raise, vec(2), [], graphs=None, breaks=None)
    check(what_is_left, vec(2), [], graphs=None, breaks=None)


def test_an_exception_alone_that_except_star_takes():
    def raised_again(x):
        try:
            try:
                raise ValueError(1)
            except* ValueError:
                raise
        except Exception as error:
            return x + 1, repr(error)

    def another_raised(x):
        try:
            try:
                raise ValueError(1)
            except* ValueError:
                framejit.graph_break()
                raise KeyError(2)
        except Exception as error:
            return x + 1, repr(error), repr(error.__context__)

    for function in (raised_again, another_raised):
        assert check(function, vec(2), graphs=None, breaks=None)(vec(2))[1].startswith(
            "Ex" if function is raised_again else "KeyError"
        )


def test_a_part_of_a_group_leaves_the_frame():
    def f(x):
        y = x + 1
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            y = y * 2
        return y

    check(f, vec(2), graphs=None, breaks=None)


def test_parts_of_a_group_that_are_kept():
    def f(x, log):
        try:
            raise ExceptionGroup(
                "g", [ValueError(1), ExceptionGroup("h", [ValueError(2), TypeError(3)])]
            )
        except* ValueError as some:
            log.append(some)
        except* TypeError as some:
            log.append(some)
        return (
            x + 1,
            [error.__suppress_context__ for error in log],
            [error.__traceback__.tb_lineno for error in log],
        )

    check(f, vec(2), [], graphs=None, breaks=None)


def test_a_group_raised_again_in_parts():
    def f(x, log):
        try:
            try:
                raise ExceptionGroup("g", [ValueError(1), TypeError(2), OSError(3)])
            except* ValueError:
                log.append(1)
                raise
            except* TypeError:
                log.append(2)
        except ExceptionGroup as group:
            log.append(repr(group))
        return x + 1

    check(f, vec(2), [], graphs=None, breaks=None)


def test_notes_of_a_group_are_those_of_its_parts():
    def f(x, log):
        try:
            group = ExceptionGroup("g", [ValueError(1), TypeError(2)])
            group.add_note("n")
            raise group
        except* ValueError as some:
            some.add_note("of values")
            log.append(some.__notes__)
        except* TypeError as some:
            log.append(some.__notes__)
        return x + 1, log[0] is log[1], group.__notes__

    check(f, vec(2), [], graphs=None, breaks=None)


def nested_group():
    raise ExceptionGroup(
        "g", [ValueError(1), ExceptionGroup("h", [ValueError(2), TypeError(3)]), OSError(4)]
    )


def shape_of(error):
    if not isinstance(error, BaseExceptionGroup):
        return type(error), error.args
    return (
        error.message,
        error.__suppress_context__,
        [shape_of(inner) for inner in error.exceptions],
    )


def test_what_an_except_star_takes_leaves_and_raises_again():
    def again(log):
        try:
            nested_group()
        except* ValueError as some:
            log.append(shape_of(some))
            raise
        except* KeyError:
            log.append("none")
        except* TypeError as some:
            log.append(shape_of(some))

    def all_again(log):
        try:
            nested_group()
        except* ValueError:
            raise
        except* (TypeError, OSError):
            raise

    def untaken(log):
        try:
            nested_group()
        except* KeyError:
            log.append("none")

    def all_taken(log):
        whole = ExceptionGroup("of values", [ValueError(1), ValueError(2)])
        try:
            raise whole
        except* ValueError as some:
            log.append((shape_of(some), some is whole, some.exceptions[0] is whole.exceptions[0]))
        except* KeyError:
            log.append("none")

    def by_first(log):
        try:
            nested_group()
        except* Exception as some:
            log.append(shape_of(some))
        except* ValueError:
            log.append("none")

    def f(x, log):
        for part in (again, all_again, by_first, untaken, all_taken):
            try:
                part(log)
            except ExceptionGroup as group:
                log.append(shape_of(group))
                log.append(group.__context__)
            x = x * 2
        return x

    check(f, vec(2), [], globals=(), graphs=None, breaks=None, skipped=True)


def test_what_an_except_star_raises_anew_is_for_python_to_merge():
    def by_name(log):
        try:
            nested_group()
        except* ValueError as some:
            raise some

    def another(log):
        try:
            nested_group()
        except* ValueError:
            raise KeyError(5)  # noqa: B904

    def f(x, log):
        for part in (by_name, another):
            try:
                part(log)
            except ExceptionGroup as group:
                log.append(shape_of(group))
            x = x * 2
        return x

    check(f, vec(2), [], graphs=None, breaks=None)
