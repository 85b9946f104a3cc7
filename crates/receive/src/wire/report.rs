//! The answer: whether the pack was unpacked, and what became of each command.

use super::pkt;
use bstr::BStr;

/// Appends the report, in packets. `unpack` is why the pack could not be unpacked. Each result is why the command for
/// the ref of this name did not happen. A reason too long for a packet is cut.
///
/// Versions 1 and 2 differ in what only proc-receive hooks say.
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
            // The name came in a packet that also held two ids, so there is room for some words.
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
