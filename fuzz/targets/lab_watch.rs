//! The history of a watch, and where the watch stands after it.
#![no_main]

use refdb_lab::watch::{ledger, state::State};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(records) = ledger::parse(bytes) else { return };
    let Ok(state) = State::of(&records, "machine") else { return };
    assert!(state.due(&state.measured, usize::MAX, |_| true).len() <= state.again.len());
});
