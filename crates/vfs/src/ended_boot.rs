use crate::signature::Signature;

/// A boot that has ended, as an administrator declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedBoot {
    id: String,
    machine_is_off: bool,
}

/// Why a boot cannot be declared ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndedBootError {
    /// The text is not a boot id.
    #[error("'{0}' is not a boot id, which looks like 4fb6d1d6-2c24-4f4b-9b9a-0d7c7a3c4a5e")]
    NotAnId(String),
    /// This machine runs with that boot id.
    #[error("'{0}' is the boot id of this machine, which is running; writers remove its stale locks")]
    Running(String),
    /// The system does not reveal the boot id with which this machine runs.
    #[error("this system does not tell its own boot id (/proc/sys/kernel/random/boot_id)")]
    Untold,
}

impl EndedBoot {
    /// Declares that the boot with this `boot_id` of Linux has ended.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a boot id or is the boot id of this machine, or if the system does not reveal the boot
    /// id of this machine.
    pub fn new(id: &str) -> std::result::Result<Self, EndedBootError> {
        if !is_boot_id(id) {
            return Err(EndedBootError::NotAnId(id.to_owned()));
        }
        match Signature::own() {
            None => Err(EndedBootError::Untold),
            Some(own) if own.boot == id => Err(EndedBootError::Running(id.to_owned())),
            Some(_) => Ok(EndedBoot { id: id.to_owned(), machine_is_off: false }),
        }
    }

    /// Makes the locks of the boot removable even where `flock` may be local to each machine. There refdb cannot see
    /// whether the locks are held, so the administrator vouches that the machine is off.
    pub fn machine_is_off(self) -> Self {
        EndedBoot { machine_is_off: true, ..self }
    }

    /// Returns the `boot_id` that Linux gave to the boot.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns whether the administrator vouches that the machine is off.
    pub(crate) fn is_vouched_for(&self) -> bool {
        self.machine_is_off
    }
}

/// Returns whether a text is a UUID as Linux writes it.
fn is_boot_id(text: &str) -> bool {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match DASHES.contains(&at) {
            true => byte == b'-',
            false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A boot id that no machine has.
    const NOBODYS: &str = "00000000-aaaa-4aaa-8aaa-000000000000";

    #[test]
    fn only_another_boot_can_be_named_as_ended() {
        let own = Signature::own().unwrap().boot.clone();
        assert!(matches!(EndedBoot::new(&own), Err(EndedBootError::Running(_))));
        for bad in ["", "x", "00000000-AAAA-4aaa-8aaa-000000000000", "00000000_aaaa-4aaa-8aaa-000000000000", " "] {
            assert!(matches!(EndedBoot::new(bad), Err(EndedBootError::NotAnId(_))), "{bad}");
        }
        assert_eq!(EndedBoot::new(NOBODYS).unwrap().id(), NOBODYS);
    }
}
