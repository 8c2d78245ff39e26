"""The ground floor: records and classes of array types, errors, and what is known of the environment."""
