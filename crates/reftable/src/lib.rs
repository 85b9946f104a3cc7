//! Reads and writes Git's reftable files and stacks.
