//! The messages between a shim and the server.
//!
//! ```text
//! shim   -> server   a request
//! server -> shim     Declined, which ends the exchange, or Accepted
//! shim   -> server   GO, with two descriptors: the client's input and its output
//! server -> shim     Ended, or Continue: git has to take over
//! ```
//!
//! The shim passes the descriptors only after the server has accepted: sshd waits until no process has them open, so a
//! server that hangs must not hold them.
//!
//! A message is its length in bytes, followed by fields. Each field is its length in bytes, followed by its content.
//! Each length is four bytes, the lowest first. GO is a single byte without a length.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// The first field of a request. It changes with each incompatible version of the messages.
const MAGIC: &[u8] = b"refdb shim 1";

/// The byte with which a shim passes its client to the server.
pub(super) const GO: u8 = b'g';

/// The greatest length of a request in bytes, without the length itself.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 10;

/// The greatest length of a reply in bytes, without the length itself. A reply can contain the longest request of a
/// client that the server examines.
pub(super) const REPLY_BYTES_MAX: usize = 16 << 20;

/// The size of a length in bytes.
pub(super) const LENGTH_BYTES: usize = 4;

/// A request of a shim: the client and the repository that the server is asked to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The part of the protocol to serve.
    pub mode: Mode,
    /// The value of `GIT_PROTOCOL`.
    pub protocol: Vec<u8>,
    /// `--timeout`: the seconds that a client of protocol version 0 or 1 may send nothing, or take to read a piece of
    /// the answer; 0 for no limit.
    pub timeout_seconds: u32,
    /// The user for the access log, if the shim knows one.
    pub user: String,
    /// The client's address for the access log and for the limits per client, if the shim knows one.
    pub address: String,
    /// The absolute path of the repository's folder, with all links resolved.
    pub folder: PathBuf,
    /// The device and inode numbers of the folder, as the shim sees it.
    pub folder_id: (u64, u64),
    /// The environment variables on which git's output depends; see [`variables`](super::variables).
    pub variables: Vec<(OsString, OsString)>,
}

/// The part of the protocol that a shim was started for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The whole conversation over one connection, as with ssh.
    Whole,
    /// `--http-backend-info-refs`: the list of refs, or the capabilities of version 2.
    Advertisement,
    /// `--stateless-rpc`: one request and its response.
    Answer,
}

/// A reply of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// The server does not serve this client, for this reason.
    Declined(String),
    /// The server will serve this client once it has the descriptors.
    Accepted,
    /// Nothing is left to do for the client. The shim prints the error, if it is not empty, and ends with this exit
    /// code.
    Ended { code: u8, error: String },
    /// The server hands the client back, and git has to go on from this point.
    Continue(HandOver),
}

/// What git needs to take over from the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HandOver {
    /// Whether the client has already received the advertisement, so git's own must be dropped.
    pub is_advertised: bool,
    /// Whether the server has checked that the client may fetch what it wants, so git need not.
    pub is_checked: bool,
    /// The bytes that the server has read from the client and not handled.
    pub input: Vec<u8>,
}

/// Why bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the other program has another version")]
    Version,
    #[error("a message is too long")]
    TooLong,
    #[error("a message is malformed")]
    Malformed,
}

impl Mode {
    const ALL: [(Mode, &'static [u8]); 3] =
        [(Mode::Whole, b"whole"), (Mode::Advertisement, b"advertisement"), (Mode::Answer, b"answer")];

    fn name(self) -> &'static [u8] {
        Mode::ALL.iter().find(|(mode, _)| *mode == self).map_or(b"", |(_, name)| name)
    }
}

impl Request {
    /// Encodes the request, with its length in front.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (device, inode) = self.folder_id;
        let [timeout, device, inode] =
            [self.timeout_seconds.into(), device, inode].map(|number: u64| number.to_string());
        let mut fields: Vec<&[u8]> = vec![MAGIC, self.mode.name(), &self.protocol, timeout.as_bytes()];
        fields.extend([self.user.as_bytes(), self.address.as_bytes(), self.folder.as_os_str().as_bytes()]);
        fields.extend([device.as_bytes(), inode.as_bytes()]);
        fields.extend(self.variables.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
        encode(&fields)
    }

    /// Decodes a request, without the length in front of it.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Fault> {
        let fields = decode(body)?;
        if fields.first() != Some(&MAGIC) {
            return Err(Fault::Version);
        }
        let (fixed, variables) = fields.split_first_chunk::<9>().ok_or(Fault::Malformed)?;
        let [_, mode, protocol, timeout, user, address, folder, device, inode] = *fixed;
        let (pairs, []) = variables.as_chunks::<2>() else { return Err(Fault::Malformed) };
        let (mode, _) = Mode::ALL.into_iter().find(|(_, name)| *name == mode).ok_or(Fault::Malformed)?;
        let variable = |[name, value]: &[&[u8]; 2]| (os(name), os(value));
        Ok(Request {
            mode,
            protocol: protocol.to_vec(),
            timeout_seconds: number(timeout)?,
            user: text(user)?,
            address: text(address)?,
            folder: os(folder).into(),
            folder_id: (number(device)?, number(inode)?),
            variables: pairs.iter().map(variable).collect(),
        })
    }
}

impl Reply {
    /// Encodes the reply, with its length in front.
    pub(super) fn encode(&self) -> Vec<u8> {
        let flag = |is_set: bool| -> &[u8] { if is_set { b"1" } else { b"0" } };
        match self {
            Reply::Declined(why) => encode(&[b"declined", why.as_bytes()]),
            Reply::Accepted => encode(&[b"accepted"]),
            Reply::Ended { code, error } => encode(&[b"ended", &[*code], error.as_bytes()]),
            Reply::Continue(HandOver { is_advertised, is_checked, input }) => {
                encode(&[b"continue", flag(*is_advertised), flag(*is_checked), input])
            }
        }
    }

    /// Decodes a reply, without the length in front of it.
    pub(super) fn decode(body: &[u8]) -> Result<Self, Fault> {
        Ok(match decode(body)?[..] {
            [b"declined", why] => Reply::Declined(text(why)?),
            [b"accepted"] => Reply::Accepted,
            [b"ended", &[code], error] => Reply::Ended { code, error: text(error)? },
            [b"continue", is_advertised @ (b"0" | b"1"), is_checked @ (b"0" | b"1"), input] => {
                let (is_advertised, is_checked) = (is_advertised == b"1", is_checked == b"1");
                Reply::Continue(HandOver { is_advertised, is_checked, input: input.to_vec() })
            }
            _ => return Err(Fault::Malformed),
        })
    }
}

/// Decodes the length of the message that follows, and checks that it is at most `at_most`.
pub(super) fn length(bytes: [u8; LENGTH_BYTES], at_most: usize) -> Result<usize, Fault> {
    let length = u32::from_le_bytes(bytes) as usize;
    if length > at_most { Err(Fault::TooLong) } else { Ok(length) }
}

fn encode(fields: &[&[u8]]) -> Vec<u8> {
    let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let body = fields.iter().map(|field| LENGTH_BYTES + field.len()).sum();
    let mut message = Vec::with_capacity(LENGTH_BYTES + body);
    message.extend(length(body));
    for field in fields {
        message.extend(length(field.len()));
        message.extend_from_slice(field);
    }
    message
}

fn decode(mut body: &[u8]) -> Result<Vec<&[u8]>, Fault> {
    let mut fields = Vec::new();
    while !body.is_empty() {
        let (length, rest) = body.split_first_chunk::<LENGTH_BYTES>().ok_or(Fault::Malformed)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (field, rest) = rest.split_at_checked(length).ok_or(Fault::Malformed)?;
        fields.push(field);
        body = rest;
    }
    Ok(fields)
}

fn text(field: &[u8]) -> Result<String, Fault> {
    String::from_utf8(field.to_vec()).map_err(|_| Fault::Malformed)
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Result<T, Fault> {
    text(field)?.parse().map_err(|_| Fault::Malformed)
}

fn os(field: &[u8]) -> OsString {
    OsStr::from_bytes(field).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn request() -> Request {
        Request {
            mode: Mode::Answer,
            protocol: b"version=2\xff".to_vec(),
            timeout_seconds: 7,
            user: "eve".into(),
            address: "::1".into(),
            folder: OsString::from_vec(b"/srv/\xfe.git".to_vec()).into(),
            folder_id: (7, u64::MAX),
            variables: vec![("HOME".into(), OsString::from_vec(b"/\xff".to_vec())), ("GIT_X".into(), "".into())],
        }
    }

    #[test]
    fn messages_come_back_as_they_were_and_cut_ones_are_refused() {
        let message = request().encode();
        let (length_bytes, body) = message.split_first_chunk().unwrap();
        assert_eq!(length(*length_bytes, REQUEST_BYTES_MAX), Ok(body.len()));
        assert_eq!(length(*length_bytes, body.len() - 1), Err(Fault::TooLong));
        assert_eq!(Request::decode(body), Ok(request()));
        (0..body.len()).for_each(|cut| assert_ne!(Request::decode(&body[..cut]), Ok(request()), "{cut}"));
        let decoded = |fields: &[&[u8]]| Request::decode(&encode(fields)[LENGTH_BYTES..]);
        assert_eq!(decoded(&[b"refdb shim 2"]), Err(Fault::Version));
        assert_eq!(decoded(&[MAGIC]), Err(Fault::Malformed));

        let input = vec![7; 100];
        for reply in [
            Reply::Declined("why".into()),
            Reply::Accepted,
            Reply::Ended { code: 128, error: "fatal: x".into() },
            Reply::Continue(HandOver { is_advertised: true, is_checked: false, input }),
        ] {
            assert_eq!(Reply::decode(&reply.encode()[LENGTH_BYTES..]), Ok(reply));
        }
        for bad in [&encode(&[b"ended", b"12", b""])[LENGTH_BYTES..], b"", b"\xff\xff\xff\xff", b"\x01"] {
            assert_eq!(Reply::decode(bad), Err(Fault::Malformed));
        }
    }
}
