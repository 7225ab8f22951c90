//! Real counterparts for tests.
