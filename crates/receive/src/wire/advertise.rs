use super::{Offer, pkt};
use bstr::{BStr, BString};
use refdb_types::ObjectId;

/// Writes the ref advertisement, with which the server begins: its refs, and its capabilities after the first of them.
#[derive(Debug)]
#[must_use = "the client waits for the end of the advertisement"]
pub struct Advertisement {
    null: ObjectId,
    /// The capabilities that follow the first ref. Empty once they are written.
    capabilities: BString,
}

impl Advertisement {
    /// Begins an advertisement. If the client asked for version 1 with `GIT_PROTOCOL=version=1`, the caller sets
    /// `version_1`, and the version line is appended to `out`.
    pub fn begin(offer: &Offer, version_1: bool, out: &mut Vec<u8>) -> Self {
        if version_1 {
            pkt::line(&[b"version 1\n"], out);
        }
        Advertisement { null: ObjectId::null(offer.hash), capabilities: offer.capabilities() }
    }

    /// Appends a ref to `out`. Returns `false` and appends nothing if the name may be too long for the packet of a ref
    /// or of a command for it.
    #[must_use]
    pub fn add(&mut self, id: &ObjectId, name: &BStr, out: &mut Vec<u8>) -> bool {
        // A command for this ref must fit into a packet with two ids.
        const AROUND: usize = 256;
        if name.len() + self.capabilities.len() + AROUND > pkt::DATA_BYTES_MAX {
            return false;
        }
        // The digits are written without an allocation, because there may be millions of refs.
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

    /// Ends the advertisement. If no ref was added, the capabilities are sent with the name `capabilities^{}`.
    ///
    /// # Panics
    ///
    /// Panics if the capabilities do not fit into a packet, which only an agent or session id of many KiB can cause.
    pub fn end(mut self, out: &mut Vec<u8>) {
        if !self.capabilities.is_empty() {
            let null = self.null;
            let added = self.add(&null, "capabilities^{}".into(), out);
            assert!(added, "the server's capabilities find no room in a packet");
        }
        pkt::flush(out);
    }
}
