//! What refdb's tests share.
