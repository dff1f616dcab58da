//! How much memory there is, asked before it is needed: a case with a zero too many should get an
//! answer, not bring the machine down.

use crate::failure::{Failure, Result};

/// Refuses what does not fit into the memory that is available now.
///
/// # Errors
/// More bytes are needed than there are. Where the system does not tell, nothing is refused.
pub fn require(what: &str, needed: f64) -> Result<()> {
    match available() {
        Some(available) if needed > available => Err(Failure::new(format!(
            "{what} needs {}, but {} of memory are available; use a smaller grid, solver.precision = \"f32\", or a \
             machine with more memory",
            readable(needed),
            readable(available)
        ))),
        _ => Ok(()),
    }
}

/// A number of bytes as a person reads one.
pub fn readable(bytes: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// Bytes that can be had without swapping: the machine's, or less where a control group limits it.
pub fn available() -> Option<f64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_meminfo(&text));
    let group = control_group();
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

fn parse_meminfo(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// What the control group has left; cached files give way, so they count as free.
fn control_group() -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok();
    let number = |name: &str| read(name)?.trim().parse::<f64>().ok();
    let cached = read("memory.stat")
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("file ")?.trim().parse::<f64>().ok()))
        .unwrap_or(0.0);
    Some((number("memory.max")? - number("memory.current")? + cached).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        assert_eq!(parse_meminfo("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2048.0 * 1024.0));
        assert_eq!(parse_meminfo("MemTotal: 9 kB\n"), None);
        assert_eq!(parse_meminfo("MemAvailable: much\n"), None);
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(readable(12.0), "12 bytes");
        assert_eq!(readable(1536.0), "1.5 KiB");
        assert_eq!(readable(3.0 * 1024.0 * 1024.0 * 1024.0), "3.0 GiB");
        assert_eq!(readable(250.0 * 1024.0 * 1024.0), "250 MiB");
    }

    #[test]
    fn the_impossible_is_refused() {
        if available().is_some() {
            let message = require("a grid of 10⁶ × 10⁶ × 10⁶ cells", 8e18).unwrap_err().to_string();
            assert!(message.contains("PiB") && message.contains("available"), "{message}");
        }
        assert!(require("nothing", 0.0).is_ok());
    }
}
