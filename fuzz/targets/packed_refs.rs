//! A whole packed-refs. The records are read up to the first malformed one, and the name of each is looked up, in the
//! file and in a block of all records.
#![no_main]

use refdb::{HashKind, backend::Peeled, files::Packed};
use reftable::RefValue;
use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let Ok(packed) = Packed::parse(Path::new("packed-refs"), hash, bytes.to_vec()) else { continue };
        let block = packed.to_block();
        let mut at = packed.start();
        while at < packed.end() {
            let Ok(record) = packed.record(at) else { break };
            assert!(record.next > at && record.next <= packed.end());
            // Names may not be sorted, whatever the first line says: any position will do, but no panic.
            if let Ok(found) = packed.seek(packed.start(), record.name) {
                assert!(found <= packed.end());
            }
            if let Some(block) = &block {
                let found = block.find(record.name).expect("we have made it");
                let objects = match found.expect("every record is in it") {
                    RefValue::Direct(id) => (id, None),
                    RefValue::Peeled { target, peeled } => (target, Some(peeled)),
                    other => panic!("{other:?} in packed-refs"),
                };
                let peeled = match record.peeled {
                    Peeled::To(peeled) => Some(peeled),
                    Peeled::NotTag | Peeled::Unknown => None,
                };
                assert_eq!(objects, (record.id, peeled));
            }
            at = record.next;
        }
    }
});
