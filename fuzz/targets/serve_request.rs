//! A client's request to upload-pack: `ls-refs` of version 2, the wants of versions 0 and 1, and the path of its URL;
//! and the request of a shim.
//! The first byte chooses the hash function, the second the size of the pieces in which the rest arrives.
#![no_main]

use refdb_serve::parsers::{LsRefs, Progress, RequestReader, Wants, WantsReader, decode, shim_request};
use refdb_types::HashKind;

fn list(hash: HashKind, bytes: &[u8], piece: usize) -> Progress {
    let mut reader = RequestReader::new(hash);
    let progress =
        bytes.chunks(piece).map(|piece| reader.add(piece)).find(|progress| *progress != Progress::Incomplete);
    assert!(bytes.starts_with(&reader.into_bytes()), "what was read is passed on to git");
    progress.unwrap_or(Progress::Incomplete)
}

fn wants(hash: HashKind, bytes: &[u8], piece: usize) -> Wants {
    let mut reader = WantsReader::new(hash);
    let wants = bytes.chunks(piece).map(|piece| reader.add(piece)).find(|wants| *wants != Wants::Incomplete);
    assert!(bytes.starts_with(&reader.into_bytes()), "what was read is passed on to git");
    wants.unwrap_or(Wants::Incomplete)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [flags, piece, input @ ..] = bytes else { return };
    let hash = if flags & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let piece = usize::from(*piece).max(1);
    // The size of the pieces makes no difference.
    let whole = list(hash, input, usize::MAX);
    assert_eq!(whole, list(hash, input, piece));
    if let Progress::Complete(LsRefs { prefixes, .. }) = whole {
        assert!(input.starts_with(b"0014command=ls-refs\n") || input.starts_with(b"0013command=ls-refs"));
        assert!(prefixes.iter().map(|prefix| prefix.len()).sum::<usize>() <= input.len());
    }
    let whole = wants(hash, input, usize::MAX);
    assert_eq!(whole, wants(hash, input, piece));
    if let Wants::Complete(ids) = whole {
        assert!(ids.iter().all(|id| id.kind() == hash) && ids.len() <= input.len() / 40);
    }
    if let Some(again) = shim_request(input) {
        // What follows the length parses to the same request, even if the input spelled its numbers in another way.
        assert_eq!(shim_request(&again[4..]), Some(again));
    }
    if let Some(path) = str::from_utf8(input).ok().and_then(decode) {
        assert!(path.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..")) && !path.contains(&0));
    }
});
