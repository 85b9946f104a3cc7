//! Configuration files, and their values.
#![no_main]

use refdb::{Config, Environment, Settings};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(config) = Config::parse(bytes, Path::new("config")) else { return };
    let environment = Environment::empty("/");
    for value in config.iter() {
        let _ = (value.boolean(), value.int(), value.long(), value.unsigned(), value.path(&environment));
    }
    for is_reftable in [false, true] {
        let _ = Settings::load(&config, &environment, false, is_reftable);
    }
    let _ = config.hooks("reference-transaction");
});
