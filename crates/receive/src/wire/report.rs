//! The report: whether the pack was unpacked, and the outcome of each command.

use super::pkt;
use bstr::BStr;

/// Appends the report to `out` in packets. `unpack` is the reason why the pack could not be unpacked, if it could not.
/// Each result is the name of a command's ref, and the reason if the command was refused. Long texts are truncated:
/// `unpack` to 1000 bytes, a reason to the room that the name leaves in a packet, and a name that is longer than a
/// packet, which only a push certificate can contain.
///
/// The versions 1 and 2 of the report differ only in lines that proc-receive hooks cause, which this function never
/// writes.
pub fn report<'r>(
    unpack: Option<&BStr>,
    results: impl IntoIterator<Item = (&'r BStr, Option<&'r BStr>)>,
    out: &mut Vec<u8>,
) {
    let unpack = unpack.unwrap_or("ok".into());
    pkt::line(&[b"unpack ", cut(unpack, UNPACK_BYTES_MAX), b"\n"], out);
    for (name, refusal) in results {
        let name = cut(name, NAME_BYTES_MAX);
        match refusal {
            None => pkt::line(&[b"ok ", name, b"\n"], out),
            // A name that arrived in a packet with two ids leaves room for some words of the reason.
            Some(why) => pkt::line(&[b"ng ", name, b" ", cut(why, NAME_BYTES_MAX - name.len()), b"\n"], out),
        }
    }
    pkt::flush(out);
}

/// The longest name that fits into a packet with `ng `, a space and the end of the line.
const NAME_BYTES_MAX: usize = pkt::DATA_BYTES_MAX - 5;
const UNPACK_BYTES_MAX: usize = 1000;

fn cut(text: &BStr, room: usize) -> &[u8] {
    &text[..text.len().min(room)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_a_packet_is_cut() {
        let (name, why) = (vec![b'n'; 100_000], vec![b'w'; 100_000]);
        for (name, why) in [(&name[..], None), (&name[..], Some(&why[..])), (&name[..5], Some(&why[..]))] {
            let mut out = Vec::new();
            report(None, [(name.into(), why.map(Into::into))], &mut out);
            let line = &out[b"000eunpack ok\n".len()..out.len() - pkt::LENGTH_BYTES];
            let length = usize::from_str_radix(std::str::from_utf8(&line[..4]).unwrap(), 16).unwrap();
            assert_eq!(length, line.len());
            assert!(length <= pkt::PACKET_BYTES_MAX);
        }
    }
}
