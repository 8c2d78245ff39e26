from .node cimport Node

cpdef Node number(int type_, object value)
