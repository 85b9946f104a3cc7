use crate::{
    Fault,
    format::{PIECE_MAX, stored_extra},
};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Deflates log blocks, all with one state, which is set up when it is first needed.
///
/// Setting the state up clears some 240 KiB, which costs more than all the rest of writing a table of one ref.
/// Therefore a log of a single small block, as most transactions write it, is "stored" instead, which is a valid zlib
/// stream. A compaction deflates it once the joined log has several blocks, or one of more than [`STORED_MAX`] bytes.
#[derive(Default)]
pub(crate) struct Deflater {
    state: Option<Compress>,
}

/// The largest block, in bytes, that is stored rather than deflated if no state has been set up.
const STORED_MAX: usize = 4096;
const _: () = assert!(STORED_MAX <= u16::MAX as usize, "the length of a stored piece has 16 bits");
const MODULUS: u32 = 65_521;
const _: () = {
    // The second sum of the checksum after one part, given that it was less than the modulus before.
    let sum_max = STORED_MAX * (STORED_MAX + 1) / 2 * 255 + STORED_MAX * MODULUS as usize;
    assert!(sum_max < u32::MAX as usize - MODULUS as usize, "no sum overflows");
};
/// On reflogs this level takes a fifth of the default level's work, for 7 % more bytes.
const LEVEL: Compression = Compression::fast();
/// zlib's header for "deflate, window of 32 KiB, fastest level"; the two bytes, as one number, are a multiple of 31.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];

impl Deflater {
    /// Appends `raw` to `out` as a zlib stream. With `may_store` a small block is stored if no state has been set up:
    /// set `may_store` if no other block will follow and the stream may be longer than `raw` by [`stored_extra`].
    pub(crate) fn deflate(&mut self, raw: &[u8], may_store: bool, out: &mut Vec<u8>) {
        if may_store && self.state.is_none() && raw.len() <= STORED_MAX {
            return store(raw, out);
        }
        let state = self.state.get_or_insert_with(|| Compress::new(LEVEL, true));
        state.reset();
        // Enough for nearly all blocks that deflate cannot shrink. For others, the loop makes more room.
        out.reserve(raw.len() + raw.len() / 128 + 64);
        loop {
            let done = state.total_in() as usize;
            match state.compress_vec(&raw[done..], out, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => {
                    debug_assert_eq!(state.total_in() as usize, raw.len(), "all of the block is in its stream");
                    return;
                }
                // The only possible error is an invalid state, and the reset has made it valid.
                Ok(_) | Err(_) => out.reserve(raw.len() + 64),
            }
        }
    }
}

/// Appends `raw` as a zlib stream of stored pieces.
pub(crate) fn store(raw: &[u8], out: &mut Vec<u8>) {
    let (begin, mut left) = (out.len(), raw);
    out.extend_from_slice(&ZLIB_HEADER);
    loop {
        let (piece, rest) = left.split_at(left.len().min(PIECE_MAX));
        let len = piece.len() as u16;
        out.push(u8::from(rest.is_empty())); // stored, and whether it is the last piece of the stream
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(piece);
        left = rest;
        if left.is_empty() {
            break;
        }
    }
    out.extend_from_slice(&adler32(raw).to_be_bytes());
    debug_assert_eq!(out.len() - begin, raw.len() + stored_extra(raw.len()), "a stored stream is as long as was said");
}

/// The Adler-32 checksum of RFC 1950, computed in parts so short that the sums cannot overflow.
fn adler32(bytes: &[u8]) -> u32 {
    let add = |(low, high): (u32, u32), byte: &u8| (low + u32::from(*byte), high + low + u32::from(*byte));
    let (low, high) = bytes.chunks(STORED_MAX).fold((1, 0), |sums, part| {
        let (low, high) = part.iter().fold(sums, add);
        (low % MODULUS, high % MODULUS)
    });
    (high << 16) | low
}

/// Inflates log blocks, all with one state.
#[derive(Default)]
pub(crate) struct Inflater {
    state: Option<Decompress>,
}

impl Inflater {
    /// Inflates the zlib stream at the start of `packed` and appends the result to `out`. Returns the length of the
    /// stream, or `None` if the stream continues beyond `packed`. Fails if the stream is invalid, or if its result does
    /// not make `out` exactly `len` bytes long.
    pub(crate) fn inflate(&mut self, packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<Option<usize>, Fault> {
        debug_assert!(out.len() <= len, "`peek` refuses a block that is shorter than its header: {len}");
        let state = self.state.get_or_insert_with(|| Decompress::new(true));
        state.reset(true);
        // One byte more than announced reveals a stream that is too long. Deflate packs at most 1032 bytes into one, so
        // a block that announces more does not get the memory.
        let room = (len - out.len() + 1).min(packed.len().saturating_mul(1032));
        out.reserve_exact(room);
        loop {
            let (consumed, before) = (state.total_in() as usize, out.len());
            let status =
                state.decompress_vec(&packed[consumed..], out, FlushDecompress::Finish).map_err(|_| Fault::Inflate)?;
            if out.len() > len {
                return Err(Fault::Inflate);
            }
            let consumed_now = state.total_in() as usize;
            match status {
                Status::StreamEnd if out.len() == len => return Ok(Some(consumed_now)),
                Status::StreamEnd => return Err(Fault::Inflate),
                _ if consumed_now == packed.len() => return Ok(None),
                _ if consumed_now == consumed && out.len() == before => return Err(Fault::Inflate),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(raw: &[u8], last: bool) {
        let mut packed = Vec::new();
        Deflater::default().deflate(raw, last, &mut packed);
        let packed_len = packed.len();
        packed.extend_from_slice(b"what follows");
        let mut out = b"head".to_vec();
        let used = Inflater::default().inflate(&packed, raw.len() + 4, &mut out);
        assert_eq!(used, Ok(Some(packed_len)));
        assert_eq!(out[4..], *raw);
        for len in 0..packed_len {
            assert_ne!(
                Inflater::default().inflate(&packed[..len], raw.len() + 4, &mut b"head".to_vec()),
                Ok(Some(packed_len))
            );
        }
        assert_eq!(Inflater::default().inflate(&packed, raw.len() + 3, &mut b"head".to_vec()), Err(Fault::Inflate));
        assert_eq!(Inflater::default().inflate(&packed, raw.len() + 5, &mut b"head".to_vec()), Err(Fault::Inflate));
    }

    #[test]
    fn blocks_round_trip_stored_and_deflated() {
        let text: Vec<u8> = (0..900u32).map(|at| (at * at % 251) as u8).collect();
        round_trip(&text, true);
        round_trip(&text, false);
        round_trip(&text.repeat(10), true);
        round_trip(b"x", true);
        round_trip(&[0xff; STORED_MAX], true);
    }

    #[test]
    fn what_is_stored_in_pieces_is_read_again() {
        for len in [0, 1, STORED_MAX, STORED_MAX + 1, PIECE_MAX, PIECE_MAX + 1, 3 * PIECE_MAX] {
            let raw: Vec<u8> = (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let mut packed = Vec::new();
            store(&raw, &mut packed);
            assert_eq!(packed.len(), len + stored_extra(len));
            let mut out = Vec::new();
            assert_eq!(Inflater::default().inflate(&packed, len, &mut out), Ok(Some(packed.len())));
            assert_eq!(out, raw);
        }
    }

    #[test]
    fn one_state_serves_many_blocks() {
        let (mut deflater, mut inflater) = (Deflater::default(), Inflater::default());
        for turn in 0..5u8 {
            let raw = vec![turn; 5000];
            let mut packed = Vec::new();
            deflater.deflate(&raw, false, &mut packed);
            let mut out = Vec::new();
            assert_eq!(inflater.inflate(&packed, 5000, &mut out), Ok(Some(packed.len())));
            assert_eq!(out, raw);
        }
    }
}
