//! The available memory, queried before it is needed: a case that is far too large gets an error message instead of
//! exhausting the machine.

use std::fs;
use std::path::Path;

use isobar::internals::execute::{self, Host};

use crate::error::{Error, Result};

/// Fails if more memory is needed than is available now.
///
/// # Errors
/// Not enough memory. If the system does not report its memory, this never fails.
pub fn require(what: &str, needed: f64) -> Result<()> {
    match available() {
        Some(available) if needed > available => Err(Error::new(format!(
            "{what} needs {}, but only {} of memory are available; use a smaller grid, solver.precision = \"f32\", or a \
             machine with more memory",
            readable(needed),
            readable(available)
        ))),
        _ => Ok(()),
    }
}

/// Collects `length` values; the memory is allocated before the first is computed.
///
/// # Errors
/// Not enough memory; the message says that `what` needs it.
pub fn collect<T>(what: &str, length: usize, values: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut collected = Vec::new();
    collected.try_reserve_exact(length).map_err(|_| cannot_be_had::<T>(what, length))?;
    collected.extend(values);
    Ok(collected)
}

/// Allocates `length` values and lets `f(first, piece)` set pieces of them, initially zero, on all threads of the pool.
pub fn fill<T>(what: &str, length: usize, f: impl Fn(usize, &mut [T]) + Sync) -> Result<Vec<T>>
where
    T: Copy + Default + Send,
{
    execute::try_pieces(&Host, length, f).map_err(|_| cannot_be_had::<T>(what, length))
}

fn cannot_be_had<T>(what: &str, length: usize) -> Error {
    let bytes = readable(length as f64 * size_of::<T>() as f64);
    Error::new(format!("{what} needs {bytes}, which could not be allocated; use a smaller grid"))
}

/// Formats a number of bytes for people.
pub fn readable(bytes: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value >= 1e6 {
        format!("{value:.1e} {}", units[unit])
    } else if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// Returns the memory available without swapping in bytes, limited by the machine, control groups and `ulimit -v`.
pub fn available() -> Option<f64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| parse_meminfo(&text));
    let group = read("/proc/self/cgroup").and_then(|text| control_group(&text, Path::new("/sys/fs/cgroup")));
    let process = || address_space(&read("/proc/self/limits")?, &read("/proc/self/status")?);
    [machine, group, process()].into_iter().flatten().reduce(f64::min)
}

fn parse_meminfo(text: &str) -> Option<f64> {
    kib(text, "MemAvailable:")
}

/// Parses the bytes from a line such as `VmSize:    2048 kB`.
fn kib(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// Returns the address space that `ulimit -v` leaves to this process.
fn address_space(limits: &str, status: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some((limit - kib(status, "VmSize:")?).max(0.0))
}

/// Returns the memory left by the tightest of this process's control groups, in one hierarchy (version 2) or in that of memory (version 1),
/// in which the limits of all ancestors apply. Cached files can be evicted, so they count as free.
fn control_group(own: &str, mounted: &Path) -> Option<f64> {
    let unified = || Some((own.lines().find_map(|line| line.strip_prefix("0::/"))?, mounted.to_path_buf()));
    let of_memory = |line: &'_ str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(":/")?;
        controllers.split(',').any(|name| name == "memory").then_some(group.len())
    };
    let memory = own.lines().find_map(|line| of_memory(line).map(|length| &line[line.len() - length..]));
    let (own, mounted, [most, used, cache]) = match memory {
        Some(own) => {
            (own, mounted.join("memory"), ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "])
        }
        None => {
            let (own, mounted) = unified()?;
            (own, mounted, ["memory.max", "memory.current", "file "])
        }
    };
    let left = |group: &Path| {
        let read = |name: &str| fs::read_to_string(group.join(name)).ok();
        let number = |name: &str| read(name)?.trim().parse::<f64>().ok();
        let cached = read("memory.stat")
            .and_then(|text| text.lines().find_map(|line| line.strip_prefix(cache)?.trim().parse::<f64>().ok()))
            .unwrap_or(0.0);
        Some((number(most)? - number(used)? + cached).max(0.0))
    };
    let group = mounted.join(own);
    group.ancestors().take_while(|group| group.starts_with(&mounted)).filter_map(left).reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        assert_eq!(parse_meminfo("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2048.0 * 1024.0));
        assert_eq!(parse_meminfo("MemTotal: 9 kB\n"), None);
        assert_eq!(parse_meminfo("MemAvailable: much\n"), None);
        let limits = |limit: &str| {
            format!("Limit   Soft Limit   Hard Limit   Units\nMax address space   {limit}   unlimited   bytes\n")
        };
        assert_eq!(address_space(&limits("4096"), "VmSize:  1 kB\n"), Some(3072.0));
        assert_eq!(address_space(&limits("1000"), "VmSize:  1 kB\n"), Some(0.0));
        assert_eq!(address_space(&limits("unlimited"), "VmSize:  1 kB\n"), None);
    }

    #[test]
    fn the_tightest_control_group_counts() {
        let mounted = tempfile::tempdir().unwrap();
        let job = mounted.path().join("slurm/job");
        fs::create_dir_all(&job).unwrap();
        let write = |folder: &Path, name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let left = || control_group("1:cpu:/else\n0::/slurm/job\n", mounted.path());
        assert_eq!(left(), None);
        for (folder, max, current) in [(job.parent().unwrap(), "1000\n", "300\n"), (&*job, "max\n", "100\n")] {
            write(folder, "memory.max", max);
            write(folder, "memory.current", current);
        }
        assert_eq!(left(), Some(700.0), "the job's own has no limit");
        write(&job, "memory.max", "400\n");
        write(&job, "memory.stat", "anon 50\nfile 25\n");
        assert_eq!(left(), Some(325.0));
        assert_eq!(control_group("4:memory:/old\n", mounted.path()), None);
        let old = mounted.path().join("memory/old");
        fs::create_dir_all(&old).unwrap();
        write(&old, "memory.limit_in_bytes", "500\n");
        write(&old, "memory.usage_in_bytes", "200\n");
        write(&old, "memory.stat", "inactive_file 1\ntotal_inactive_file 30\n");
        assert_eq!(control_group("2:cpu,cpuacct:/x\n4:hugetlb,memory:/old\n0::/\n", mounted.path()), Some(330.0));
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(readable(12.0), "12 bytes");
        assert_eq!(readable(1536.0), "1.5 KiB");
        assert_eq!(readable(3.0 * 1024.0 * 1024.0 * 1024.0), "3.0 GiB");
        assert_eq!(readable(250.0 * 1024.0 * 1024.0), "250 MiB");
        assert_eq!(readable(1e300), "8.9e284 PiB");
    }

    #[test]
    fn the_impossible_is_refused() {
        if available().is_some() {
            let message = require("a grid of 10⁶ × 10⁶ × 10⁶ cells", 8e18).unwrap_err().to_string();
            assert!(message.contains("PiB") && message.contains("available"), "{message}");
        }
        assert!(require("nothing", 0.0).is_ok());
        let message = collect("the solution", 1 << 55, [1.0]).unwrap_err().to_string();
        assert!(message.contains("the solution needs 256 PiB, which could not be allocated"), "{message}");
        assert_eq!(collect("", 3, 0..3).unwrap(), [0, 1, 2]);
    }
}
