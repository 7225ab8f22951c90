//! Compiling objects.
