//! The services of git's protocol that clients can name.

/// A service of git's protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::UploadPack => "upload-pack",
            Service::ReceivePack => "receive-pack",
        }
    }
}
