use super::{
    Capabilities, Commands, Fault, Limits, Offer, ProtocolError,
    pkt::{self, Decoded, LENGTH_BYTES, Packet},
};
use bstr::{BString, ByteSlice};
use refdb_types::ObjectId;

/// A client's request: everything that the client sends before the pack.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The commands. There are none if the client had nothing to push.
    pub commands: Commands,
    /// The capabilities that the client selected.
    pub capabilities: Capabilities,
    /// The push options.
    pub options: Vec<BString>,
    /// The commits whose parents the client does not have because it is a shallow clone.
    pub shallow: Vec<ObjectId>,
}

/// Parses a [`Request`] from bytes that may arrive in pieces of any size.
///
/// The reader never takes a byte of the pack that follows the request. A server can therefore read exactly
/// [`RequestReader::wants`] bytes each time, and pass the rest of its input to a program that unpacks it.
#[derive(Debug)]
pub struct RequestReader {
    offer: Offer,
    limits: Limits,
    phase: Phase,
    request: Request,
    /// The text of the push certificate so far. `None` if certificates are not accepted, or after the commands of the
    /// certificate were added.
    certificate: Option<Vec<u8>>,
    /// An incomplete packet. At most as long as a packet and the length of the next one.
    pending: Vec<u8>,
    /// The number of bytes before `pending`.
    offset: u64,
    options_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Commands,
    Certificate,
    Options,
    Done,
}

impl RequestReader {
    /// Returns a reader for a client to which `offer` was advertised.
    pub fn new(offer: &Offer, limits: Limits) -> Self {
        RequestReader {
            offer: offer.clone(),
            limits,
            phase: Phase::Commands,
            request: Request::default(),
            certificate: None,
            pending: Vec::new(),
            offset: 0,
            options_bytes: 0,
        }
    }

    /// Accepts push certificates too. Their commands are read, but their signatures are not verified, so this is only
    /// for requests that are then passed on to git or refused. Call it before the first packet has been taken whole.
    pub fn with_certificates(self) -> Self {
        RequestReader { certificate: Some(Vec::new()), ..self }
    }

    /// Returns a number of bytes without which the request cannot end, so that a caller may wait for all of them.
    /// Returns 0 once the request has ended.
    pub fn wants(&self) -> usize {
        if self.phase == Phase::Done {
            return 0;
        }
        match pkt::decode(&self.pending) {
            // A line is followed by at least the length of another packet.
            Ok(Decoded::Missing(missing)) if self.pending.len() >= LENGTH_BYTES => missing + LENGTH_BYTES,
            Ok(Decoded::Missing(missing)) => missing,
            // This cannot happen: `pending` holds no whole packet, and an invalid one has ended the session.
            Ok(Decoded::Packet(..)) | Err(_) => LENGTH_BYTES,
        }
    }

    /// Returns whether no whole packet has been read yet.
    pub fn is_at_start(&self) -> bool {
        self.offset == 0
    }

    /// Consumes bytes from the start of `bytes` and returns their number, which is less than the length of `bytes`
    /// only if the request has ended.
    ///
    /// # Errors
    ///
    /// Fails if a packet is invalid, cannot be accepted, exceeds a limit, or brings an error message of the client. The
    /// reader must not be used any more.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, ProtocolError> {
        let mut taken = 0;
        loop {
            let wanted = self.wants().min(bytes.len() - taken);
            if wanted == 0 {
                return Ok(taken);
            }
            self.pending.extend_from_slice(&bytes[taken..taken + wanted]);
            taken += wanted;
            self.drain()?;
        }
    }

    /// Returns the request.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::End`] if the request is incomplete.
    pub fn finish(self) -> Result<Request, ProtocolError> {
        if self.phase == Phase::Done {
            assert!(self.pending.is_empty(), "bytes behind the request were taken");
            Ok(self.request)
        } else {
            Err(self.at(Fault::End))
        }
    }

    /// Returns the error for a fault of the packet that is to be taken next.
    pub(crate) fn at(&self, fault: Fault) -> ProtocolError {
        ProtocolError { offset: self.offset, fault }
    }

    /// Handles and removes all whole packets of `pending`.
    fn drain(&mut self) -> Result<(), ProtocolError> {
        let pending = std::mem::take(&mut self.pending);
        let mut start = 0;
        while self.phase != Phase::Done {
            match pkt::decode(&pending[start..]).map_err(|fault| self.at(fault))? {
                Decoded::Missing(_) => break,
                Decoded::Packet(packet, length) => {
                    let data = &pending[start..][LENGTH_BYTES..length];
                    self.packet(packet, data).map_err(|fault| self.at(fault))?;
                    start += length;
                    self.offset += length as u64;
                }
            }
        }
        self.pending = pending;
        self.pending.drain(..start);
        debug_assert!(self.pending.len() <= pkt::READ_BYTES_MAX + 2 * LENGTH_BYTES);
        Ok(())
    }

    /// Handles a packet. `data` is its data with the newline, if any.
    fn packet(&mut self, packet: Packet<'_>, data: &[u8]) -> Result<(), Fault> {
        match (self.phase, packet) {
            (_, Packet::Line(line)) if line.starts_with(b"ERR ") => Err(Fault::Client(line[4..].into())),
            (Phase::Commands, Packet::Line(line)) => self.command(line),
            (Phase::Certificate, Packet::Line(_)) => self.certify(data),
            (Phase::Options, Packet::Line(line)) => self.option(line),
            (Phase::Commands | Phase::Certificate, _) => self.end_commands(),
            (Phase::Options | Phase::Done, _) => {
                self.phase = Phase::Done;
                Ok(())
            }
        }
    }

    fn end_commands(&mut self) -> Result<(), Fault> {
        self.add_certified()?;
        let has_options = self.request.capabilities.push_options && !self.request.commands.is_empty();
        self.phase = if has_options { Phase::Options } else { Phase::Done };
        Ok(())
    }

    /// Adds data to the certificate. As in git, the data of packets are joined unchanged, even if a packet does not
    /// hold exactly one line, and everything after a zero byte in a packet is ignored.
    fn certify(&mut self, data: &[u8]) -> Result<(), Fault> {
        let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
        if text == b"push-cert-end\n" {
            self.phase = Phase::Commands;
            return Ok(());
        }
        let certificate = self.certificate.get_or_insert_default();
        if certificate.len() + text.len() > self.limits.commands_bytes {
            return Err(Fault::TooMuch { what: "certificates", limit: self.limits.commands_bytes });
        }
        certificate.extend_from_slice(text);
        Ok(())
    }

    /// Adds the commands of the certificate, which follow its first empty line. Other lines, such as those of the
    /// signature, are ignored.
    fn add_certified(&mut self) -> Result<(), Fault> {
        let certificate = self.certificate.take().unwrap_or_default();
        let Some((_, commands)) = certificate.split_once_str("\n\n") else { return Ok(()) };
        for line in commands.split(|byte| *byte == b'\n') {
            match self.request.commands.add(line, self.offer.hash, &self.limits) {
                Ok(()) | Err(Fault::Command(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    fn command(&mut self, line: &[u8]) -> Result<(), Fault> {
        if let Some(id) = line.strip_prefix(b"shallow ") {
            return self.shallow(id);
        }
        if line.starts_with(b"push-cert") && self.certificate.is_none() {
            return Err(Fault::Certificate);
        }
        // As in git, anything after a second zero byte is ignored.
        let mut parts = line.split(|byte| *byte == 0);
        let command = parts.next().unwrap_or_default();
        if let Some(words) = parts.next() {
            let object_format = self.request.capabilities.add(words, &self.offer);
            if object_format != self.offer.hash.name().as_bytes() {
                return Err(Fault::ObjectFormat(object_format.into()));
            }
        }
        if command == b"push-cert" {
            self.phase = Phase::Certificate;
            return Ok(());
        }
        self.request.commands.add(command, self.offer.hash, &self.limits)
    }

    fn shallow(&mut self, id: &[u8]) -> Result<(), Fault> {
        let id = ObjectId::from_hex(self.offer.hash, id).map_err(|_| Fault::Shallow(id.into()))?;
        if (self.request.shallow.len() + 1) * size_of::<ObjectId>() > self.limits.shallow_bytes {
            return Err(Fault::TooMuch { what: "ids of a shallow clone's edge", limit: self.limits.shallow_bytes });
        }
        self.request.shallow.push(id);
        Ok(())
    }

    fn option(&mut self, option: &[u8]) -> Result<(), Fault> {
        if option.contains(&0) {
            return Err(Fault::OptionByte);
        }
        self.options_bytes += option.len() + size_of::<BString>();
        if self.options_bytes > self.limits.options_bytes {
            return Err(Fault::TooMuch { what: "push options", limit: self.limits.options_bytes });
        }
        self.request.options.push(option.into());
        Ok(())
    }
}
