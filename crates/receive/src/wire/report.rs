//! The report: whether the pack was unpacked, and the outcome of each command.

use super::pkt;
use bstr::BStr;

/// Appends the report to `out` in packets. `unpack` is the reason why the pack could not be unpacked, if it could not.
/// Each result is the name of a command's ref, and the reason if the command was refused. A reason that does not fit
/// into a packet is truncated, and `unpack` to 1000 bytes.
///
/// The versions 1 and 2 of the report differ only in lines that proc-receive hooks cause, which this function never
/// writes.
///
/// # Panics
///
/// Panics if a name is so long that its line does not fit into a packet even without a reason. The name of a command
/// that arrived in a packet of its own fits.
pub fn report<'r>(
    unpack: Option<&BStr>,
    results: impl IntoIterator<Item = (&'r BStr, Option<&'r BStr>)>,
    out: &mut Vec<u8>,
) {
    let unpack = unpack.unwrap_or("ok".into());
    pkt::line(&[b"unpack ", cut(unpack, UNPACK_BYTES_MAX), b"\n"], out);
    for (name, refusal) in results {
        match refusal {
            None => pkt::line(&[b"ok ", name, b"\n"], out),
            // The name arrived in a packet that also held two ids, so some words of the reason fit in their place.
            Some(why) => {
                let room = pkt::DATA_BYTES_MAX.saturating_sub(name.len() + 5);
                pkt::line(&[b"ng ", name, b" ", cut(why, room), b"\n"], out);
            }
        }
    }
    pkt::flush(out);
}

const UNPACK_BYTES_MAX: usize = 1000;

fn cut(text: &BStr, room: usize) -> &[u8] {
    &text[..text.len().min(room)]
}
