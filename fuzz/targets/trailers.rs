//! The trailers of a message, and how they are shown. The first line is what follows the colon of `%(trailers:...)`.
#![no_main]

use bstr::ByteSlice;
use refdb_cli::for_each_ref::trailers::{TrailerForm, TrailerRules};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((form, message)) = bytes.split_once_str("\n") else { return };
    let rules = TrailerRules::default();
    let mut plain = Vec::new();
    TrailerForm::default().show(message, &rules, &mut plain);
    // The default form shows a part of the message as it is. If it shows nothing, no other form shows anything, unless
    // the message has a NUL.
    assert!(message.contains_str(&plain));
    if let Ok(form) = TrailerForm::parse(form) {
        let mut shown = Vec::new();
        form.show(message, &rules, &mut shown);
        assert!(plain.is_empty() <= shown.is_empty() || message.contains(&0));
    }
});
