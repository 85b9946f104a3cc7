use super::{Offer, pkt};
use bstr::{BStr, BString};
use refdb_types::ObjectId;

/// The server's first words: its refs, and what it can do.
#[derive(Debug)]
pub struct Advertisement {
    null: ObjectId,
    /// What goes behind the first ref; empty once it is said.
    capabilities: BString,
}

impl Advertisement {
    /// Begins it. `version_1` is what the client asked for with `GIT_PROTOCOL=version=1`.
    pub fn begin(offer: &Offer, version_1: bool, out: &mut Vec<u8>) -> Self {
        if version_1 {
            pkt::line(&[b"version 1\n"], out);
        }
        Advertisement { null: ObjectId::null(offer.hash), capabilities: offer.capabilities() }
    }

    /// Adds a ref. `false`: its name is too long for a packet, so that it was left out.
    #[must_use]
    pub fn add(&mut self, id: &ObjectId, name: &BStr, out: &mut Vec<u8>) -> bool {
        // The two ids of a command for this ref must find room too.
        const AROUND: usize = 256;
        if name.len() + self.capabilities.len() + AROUND > pkt::DATA_BYTES_MAX {
            return false;
        }
        // The digits go straight into the output: there may be millions of refs.
        let start = out.len();
        out.extend_from_slice(b"0000");
        id.write_hex(out);
        out.push(b' ');
        out.extend_from_slice(name);
        if !self.capabilities.is_empty() {
            out.push(0);
            out.append(&mut self.capabilities);
        }
        out.push(b'\n');
        pkt::set_length(&mut out[start..]);
        true
    }

    /// Ends it. Of a repository without refs it still says what the server can do.
    pub fn end(mut self, out: &mut Vec<u8>) {
        if !self.capabilities.is_empty() {
            let null = self.null;
            let added = self.add(&null, "capabilities^{}".into(), out);
            assert!(added, "the server's capabilities find no room in a packet");
        }
        pkt::flush(out);
    }
}
