//! Packet lines, gitprotocol-common(5): four hexadecimal digits that count themselves and the data that follows.
//!
//! gitoxide's decoder takes the empty line `0004` for an error. Git does not: it is how a client sends an empty push option.

use super::Fault;

/// Bytes in a packet at most, its four digits included.
pub const PACKET_BYTES_MAX: usize = 65_520;

/// Bytes of data in a packet at most.
pub const DATA_BYTES_MAX: usize = PACKET_BYTES_MAX - LENGTH_BYTES;

/// Bytes of data in a packet that is read, at most. Git reads a little more than it writes.
pub const READ_BYTES_MAX: usize = 65_519;

/// Bytes in a packet's length.
pub const LENGTH_BYTES: usize = 4;

/// The side bands of gitprotocol-pack(5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Band {
    /// The answer itself.
    Data = 1,
    /// Text for the user.
    Progress = 2,
}

/// One packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// `0000`: the end of a list.
    Flush,
    /// `0001` or `0002`, which only protocol version 2 gives a meaning.
    Special(u8),
    /// A line, without its newline if it has one.
    Line(&'a [u8]),
}

/// What the first bytes of a stream hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded<'a> {
    /// Less than a packet: this many bytes more are needed to go on.
    Missing(usize),
    /// A packet, and how many bytes it took.
    Packet(Packet<'a>, usize),
}

/// Decodes the packet at the start of `bytes`.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, Fault> {
    let Some((digits, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(Decoded::Missing(LENGTH_BYTES - bytes.len()));
    };
    let length = length(*digits)?;
    let Some(data) = length.checked_sub(LENGTH_BYTES) else {
        let packet = if length == 0 { Packet::Flush } else { Packet::Special(length as u8) };
        return Ok(Decoded::Packet(packet, LENGTH_BYTES));
    };
    match rest.get(..data) {
        None => Ok(Decoded::Missing(data - rest.len())),
        Some(line) => Ok(Decoded::Packet(Packet::Line(line.strip_suffix(b"\n").unwrap_or(line)), length)),
    }
}

fn length(digits: [u8; LENGTH_BYTES]) -> Result<usize, Fault> {
    let mut length = 0;
    for digit in digits {
        let value = char::from(digit).to_digit(16).ok_or(Fault::LengthDigits(digits))?;
        length = length << 4 | value as usize;
    }
    match length.checked_sub(LENGTH_BYTES) {
        // Git tells the length without these four bytes.
        Some(data) if data > READ_BYTES_MAX => Err(Fault::Length(data)),
        None if length == 3 => Err(Fault::Length(length)),
        _ => Ok(length),
    }
}

/// Appends a line made of `parts`, as they are. They must not be longer than [`DATA_BYTES_MAX`] together.
pub fn line(parts: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(b"0000");
    for part in parts {
        out.extend_from_slice(part);
    }
    set_length(&mut out[start..]);
}

/// Gives a packet its length. Its first four bytes are room for it.
pub(super) fn set_length(packet: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let length = packet.len();
    assert!((LENGTH_BYTES..=PACKET_BYTES_MAX).contains(&length), "no client could read a packet of {length} bytes");
    let digits = [12, 8, 4, 0].map(|shift| DIGITS[length >> shift & 15]);
    packet[..LENGTH_BYTES].copy_from_slice(&digits);
}

/// Appends a flush packet.
pub fn flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Appends `data` in packets of a side band: none if it is empty.
pub fn band(band: Band, data: &[u8], out: &mut Vec<u8>) {
    for chunk in data.chunks(DATA_BYTES_MAX - 1) {
        line(&[&[band as u8], chunk], out);
    }
}

/// Appends the packet that tells a waiting client that the server is alive: an empty one of the first band.
pub fn keepalive(out: &mut Vec<u8>) {
    line(&[&[Band::Data as u8]], out);
}
