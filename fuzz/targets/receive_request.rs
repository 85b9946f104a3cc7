//! A client's request to receive-pack. The first byte chooses what the server offers, the second the size of the pieces
//! in which the rest arrives.
#![no_main]

use refdb_receive::wire::{Limits, Offer, ProtocolError, Request, RequestReader};
use refdb_types::HashKind;

fn read(offer: &Offer, bytes: &[u8], piece: usize) -> (Result<Request, ProtocolError>, usize) {
    let limits = Limits { commands_bytes: 2_000, options_bytes: 500, shallow_bytes: 500 };
    let mut reader = RequestReader::new(offer, limits);
    let mut taken = 0;
    for piece in bytes.chunks(piece) {
        match reader.take(piece) {
            Ok(count) => taken += count,
            Err(error) => return (Err(error), 0),
        }
        if reader.wants() == 0 {
            break;
        }
    }
    (reader.finish(), taken)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [flags, piece, input @ ..] = bytes else { return };
    let hash = if flags & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let (atomic, push_options) = (flags & 2 != 0, flags & 4 != 0);
    let agent = "fuzz".into();
    let offer = Offer { hash, atomic, push_options, ofs_delta: true, agent, session_id: None };
    let (whole, taken) = read(&offer, input, usize::MAX);
    // The size of the pieces makes no difference.
    let pieces = read(&offer, input, usize::from(*piece).max(1));
    assert_eq!((&whole, taken), (&pieces.0, pieces.1));
    let Ok(request) = whole else { return };
    // Nothing behind the request was taken, nothing was kept beyond the limits, nothing chosen that was not offered.
    let is_end = |line: &&[u8]| input[..taken].ends_with(line);
    assert!([b"0000".as_slice(), b"0001", b"0002"].iter().any(is_end));
    assert!(request.commands.iter().map(|command| command.name.len()).sum::<usize>() <= 2_000);
    assert!(request.options.iter().map(|option| option.len()).sum::<usize>() <= 500);
    assert!(atomic || !request.capabilities.atomic);
    assert!(push_options || request.options.is_empty());
});
