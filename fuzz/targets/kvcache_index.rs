//! The saved index of the key-value cache. No entry may lie outside its segment, and checked content is as it was
//! written.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| refdb_kvcache::fuzzing::index(bytes));
