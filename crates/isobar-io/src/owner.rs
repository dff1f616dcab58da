//! Owners of temporary files. The name of a temporary contains the process that made it, so that the leftovers of a killed process
//! can be distinguished from files being written. On Linux only; elsewhere names carry no owner and nothing is removed.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;

use crate::hash;

/// A process on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Identifies the machine, its last boot, and the namespace of process numbers.
    place: u64,
    process: i32,
    /// Start time in ticks since boot: process numbers are reused.
    began: u64,
}

impl Owner {
    /// Returns this process; `None` if the system does not report it.
    ///
    /// # Errors
    /// A temporary failure to find out, such as too many open files.
    pub(crate) fn this() -> io::Result<Option<Self>> {
        let read = || -> io::Result<Self> {
            let mut place = fs::read("/proc/sys/kernel/random/boot_id")?;
            place.extend(fs::read("/proc/sys/kernel/hostname")?);
            place.extend(fs::read_link("/proc/self/ns/pid")?.as_os_str().as_encoded_bytes());
            let process = std::process::id() as i32;
            Ok(Self { place: hash::of_bytes(&place), process, began: State::read("self")?.began })
        };
        match read() {
            Ok(this) => Ok(Some(this)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Parses the owner from a name, between `prefix` and the next hyphen.
    pub(crate) fn of(name: &OsStr, prefix: &str) -> Option<Self> {
        let mut parts = name.to_str()?.strip_prefix(prefix)?.splitn(4, '-');
        let (place, process, began) = (parts.next()?, parts.next()?, parts.next()?);
        let process = process.parse().ok().filter(|&process| process > 0)?;
        parts.next()?;
        Some(Self { place: u64::from_str_radix(place, 16).ok()?, process, began: began.parse().ok()? })
    }

    /// Returns whether the process has ended. A process of another machine counts as running.
    pub(crate) fn is_gone(&self, this: &Self) -> bool {
        let is_another = |state: State| state.has_ended || state.began != self.began;
        self.place == this.place && (is_missing(self.process) || State::read(self.process).is_ok_and(is_another))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}-{}", self.place, self.process, self.began)
    }
}

/// Returns whether no process has this number, including processes that this user may not see in `/proc`.
#[cfg(unix)]
fn is_missing(process: i32) -> bool {
    // SAFETY: signal 0 is not delivered.
    let found = unsafe { libc::kill(process, 0) };
    found != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(not(unix))]
fn is_missing(_process: i32) -> bool {
    false
}

/// The state of a process.
struct State {
    /// A zombie: it has ended and waits for its parent.
    has_ended: bool,
    began: u64,
}

impl State {
    fn read(process: impl fmt::Display) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // "PID (NAME) STATE …", where NAME may contain spaces and brackets; the state is field 3, the start time field 22.
        let fields: Vec<&str> = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let began = fields.get(19).and_then(|field| field.parse().ok());
        let began = began.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Self { has_ended: matches!(fields.first(), Some(&("Z" | "X"))), began })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_gone_when_it_has_ended() {
        let this = Owner::this().unwrap().unwrap();
        assert!(!this.is_gone(&this));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = child.id() as i32;
        let owner = Owner { process, began: State::read(process).unwrap().began, ..this };
        assert!(!owner.is_gone(&this));
        assert!(Owner { began: owner.began + 1, ..owner }.is_gone(&this), "another one of the same number");
        child.kill().unwrap();
        while !State::read(process).unwrap().has_ended {
            std::thread::yield_now();
        }
        assert!(owner.is_gone(&this), "nobody has asked for it yet");
        child.wait().unwrap();
        assert!(owner.is_gone(&this));
        assert!(!Owner { place: !this.place, ..owner }.is_gone(&this), "of another machine");
    }

    #[test]
    fn names_say_whose_they_are() {
        let this = Owner::this().unwrap().unwrap();
        let of = |name: &str| Owner::of(OsStr::new(name), ".isobar-");
        assert_eq!(of(&format!(".isobar-{this}-a1B2c3.tmp")), Some(this));
        for name in [
            ".isobar-a1B2c3.tmp",
            ".isobar-",
            "u.zarr",
            ".isobar-a-b-c-d.tmp",
            ".isobar-f0-0-7-x.tmp",
            ".isobar-f0--1-7.tmp",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
