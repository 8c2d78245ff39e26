cpdef bint is_internal(object frame) except -1
cpdef tuple user_place()
cpdef object code_of(object function)
cpdef object closure_of(object function)
cpdef object defaults_of(object function)
cpdef dict globals_of(object function)
cpdef object keyword_defaults_of(object function)
cpdef tuple further_of(object function)
cpdef bint names_nothing(object code) except -1
