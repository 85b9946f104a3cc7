//! The stream that an export makes: any bytes are an import or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use refdb_kvcache::{Cache, Options};
use std::sync::OnceLock;

static CACHE: OnceLock<Cache> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let cache = CACHE.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("refdb-fuzz-kvcache-{}", std::process::id()));
        Cache::open(&dir, Options::new(1 << 20)).expect("a temporary folder can be written to")
    });
    let mut bytes = bytes;
    let _ = cache.import(&mut bytes);
});
