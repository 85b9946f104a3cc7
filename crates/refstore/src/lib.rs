//! Git's reference storage.
