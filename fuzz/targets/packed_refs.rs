//! A whole packed-refs: every record is read and every name that is found is looked for.
#![no_main]

use refdb::{HashKind, files::Packed};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let Ok(packed) = Packed::parse(Path::new("packed-refs"), hash, bytes.to_vec()) else { continue };
        let mut at = packed.start();
        while at < packed.end() {
            let Ok(record) = packed.record(at) else { break };
            assert!(record.next > at && record.next <= packed.end());
            // Names may not be sorted, whatever the first line says: any position will do, but no panic.
            if let Ok(found) = packed.seek(packed.start(), record.name) {
                assert!(found <= packed.end());
            }
            at = record.next;
        }
    }
});
