"""The compiled form of ``frames.py``."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF

cdef extern from "Python.h":
    ctypedef struct PyCodeObject:
        PyObject* co_consts
        PyObject* co_names
    bint PyCode_Check(object)
    ctypedef struct PyFrameObject
    PyFrameObject* PyEval_GetFrame()
    PyFrameObject* PyFrame_GetBack(PyFrameObject*)
    PyCodeObject* PyFrame_GetCode(PyFrameObject*)
    PyObject* PyFrame_GetGlobals(PyFrameObject*)
    int PyFrame_GetLasti(PyFrameObject*)
    PyObject* PyDict_GetItemWithError(object, object) except? NULL
    PyObject* PyFunction_GetCode(object) except NULL
    PyObject* PyFunction_GetClosure(object) except? NULL
    PyObject* PyFunction_GetDefaults(object) except? NULL
    PyObject* PyFunction_GetGlobals(object) except NULL
    PyObject* PyFunction_GetKwDefaults(object) except? NULL
    ctypedef struct PyFunctionObject:
        PyObject* func_dict

cdef tuple _INTERNAL = ("drjit_core", "drjit", "contextlib")
cdef dict _is_internal = {}
cdef int _MOST_MODULES = 1024


cdef inline object _taken(void* reference):
    """The object of a reference that the interpreter has made for whoever asked."""
    cdef object found = <object> <PyObject*> reference
    Py_DECREF(found)
    return found


cpdef bint is_internal(object frame) except -1:
    """Whether a frame belongs to this project, not to its user."""
    cdef PyObject* name = PyDict_GetItemWithError(_taken(PyFrame_GetGlobals(<PyFrameObject*> frame)), "__name__")
    return _is_of_project("" if name == NULL else <object> name)


cdef bint _is_of_project(object module) except -1:
    cdef PyObject* known = PyDict_GetItemWithError(_is_internal, module)
    if known == NULL:
        if len(_is_internal) >= _MOST_MODULES:
            _is_internal.clear()
        _is_internal[module] = module.partition(".")[0] in _INTERNAL
        return _is_internal[module]
    return <object> known


cpdef tuple user_place():
    """Where the innermost frame that is the user's stands: its code, and the position of an instruction in that."""
    cdef PyFrameObject* back = PyEval_GetFrame()
    cdef object frame
    if back == NULL:
        return None
    frame = <object> <PyObject*> back
    while is_internal(frame):
        back = PyFrame_GetBack(<PyFrameObject*> frame)
        if back == NULL:
            return None
        frame = _taken(back)
    return _taken(PyFrame_GetCode(<PyFrameObject*> frame)), PyFrame_GetLasti(<PyFrameObject*> frame)


cpdef object code_of(object function):
    """The code of a function in Python."""
    return <object> PyFunction_GetCode(function)


cpdef object closure_of(object function):
    """The cells of the variables that it has from functions around it."""
    cdef PyObject* found = PyFunction_GetClosure(function)
    return None if found == NULL else <object> found


cpdef object defaults_of(object function):
    """The values of parameters that may be left out."""
    cdef PyObject* found = PyFunction_GetDefaults(function)
    return None if found == NULL else <object> found


cpdef dict globals_of(object function):
    """The variables of its module."""
    return <dict> PyFunction_GetGlobals(function)


cpdef object keyword_defaults_of(object function):
    """The values of parameters that may be left out and are given by name only."""
    cdef PyObject* found = PyFunction_GetKwDefaults(function)
    return None if found == NULL else <object> found


cpdef tuple further_of(object function):
    """What else it refers to, if it does: the values of keywords that may be left out, and its attributes."""
    cdef PyObject* keywords = PyFunction_GetKwDefaults(function)
    cdef PyObject* attributes = (<PyFunctionObject*> <PyObject*> function).func_dict
    if keywords == NULL and attributes == NULL:
        return None
    return tuple([each for each in (None if keywords == NULL else <object> keywords,
                                    None if attributes == NULL else <object> attributes) if each]) or None


cpdef bint names_nothing(object code) except -1:
    """Whether a function, and those within it, use no variable of a module and no attribute."""
    if <tuple> (<PyCodeObject*> code).co_names:
        return False
    for constant in <tuple> (<PyCodeObject*> code).co_consts:
        if PyCode_Check(constant) and not names_nothing(constant):
            return False
    return True
