//! Packet lines, as gitprotocol-common(5) defines them: four hexadecimal digits, which give the length of the digits
//! and the data together, and then the data.
//!
//! gitoxide's decoder is not used because it rejects the empty line `0004`, which git accepts and clients send for an
//! empty push option.

use super::Fault;

/// The greatest length of a written packet in bytes, including the four digits.
pub const PACKET_BYTES_MAX: usize = 65_520;

/// The greatest length of the data of a written packet in bytes.
pub const DATA_BYTES_MAX: usize = PACKET_BYTES_MAX - LENGTH_BYTES;

/// The greatest length of the data of a packet that is accepted, in bytes. Git accepts slightly longer packets than it
/// writes.
pub const READ_BYTES_MAX: usize = 65_519;

/// The length in bytes of the digits with which a packet begins.
pub const LENGTH_BYTES: usize = 4;

/// A side band, as gitprotocol-pack(5) defines it. The third band, for fatal errors, is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Band {
    /// The answer: packet lines of the report.
    Data = 1,
    /// Messages to the user.
    Progress = 2,
}

/// A packet that was decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// `0000`, which ends a list.
    Flush,
    /// `0001` or `0002`, which have a meaning only in version 2 of the protocol.
    Special(u8),
    /// A line, without the newline at its end.
    Line(&'a [u8]),
}

/// The result of decoding the first bytes of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded<'a> {
    /// The bytes are not a whole packet. At least this many more are needed to proceed.
    Missing(usize),
    /// A packet, and its length in bytes.
    Packet(Packet<'a>, usize),
}

/// Decodes the packet at the start of `bytes`.
///
/// # Errors
///
/// Returns [`Fault::LengthDigits`] or [`Fault::Length`] if the first four bytes are not a valid length.
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
        // Git's message names the length without the four digits.
        Some(data) if data > READ_BYTES_MAX => Err(Fault::Length(data)),
        None if length == 3 => Err(Fault::Length(length)),
        _ => Ok(length),
    }
}

/// Appends a packet whose data are the concatenated `parts`. No newline is added.
///
/// # Panics
///
/// Panics if the parts are longer than [`DATA_BYTES_MAX`] together.
pub fn line(parts: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(b"0000");
    for part in parts {
        out.extend_from_slice(part);
    }
    set_length(&mut out[start..]);
}

/// Writes the length of a packet into its first four bytes, which are part of it.
///
/// # Panics
///
/// Panics if the packet is shorter than these bytes or longer than [`PACKET_BYTES_MAX`].
pub fn set_length(packet: &mut [u8]) {
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

/// Appends `data` in as many packets of a side band as it needs; no packet if it is empty.
pub fn band(band: Band, data: &[u8], out: &mut Vec<u8>) {
    for chunk in data.chunks(DATA_BYTES_MAX - 1) {
        line(&[&[band as u8], chunk], out);
    }
}

/// Appends a keepalive packet, which is an empty packet of the first band.
pub fn keepalive(out: &mut Vec<u8>) {
    line(&[&[Band::Data as u8]], out);
}
