//! `refdb update-ref`.

pub mod records;
pub mod request;
