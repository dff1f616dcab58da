//! Choosing where to compute.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use isobar_core::backend::copy_bandwidth;
use isobar_core::prelude::{Backend, DeviceArray, DiffusionProblem, Error, Result, Shape};
use isobar_cpu::Cpu;
use isobar_cuda::Cuda;
use isobar_cuda::problem::DeviceProblem;
use isobar_dist::{PartBackend, Ranks};

use crate::cards::Cards;
use crate::process::require_process;

/// A place to compute.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Device {
    /// This machine's processor cores, or one rank's share of them; see [`Ranks::device`](crate::Ranks::device).
    Cpu(Cpu),
    /// An NVIDIA GPU, or that of one of several ranks.
    Cuda(Cuda),
    /// Several NVIDIA GPUs of this machine; see [`Device::cards`].
    Cards(Cards),
}

impl Device {
    /// Uses all cores of this machine.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if threads cannot be started, and later in a process that was forked
    /// from this one.
    pub fn cpu() -> Result<Self> {
        Ok(Self::Cpu(Cpu::with_all_threads()?))
    }

    /// Uses `threads` threads.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for 0 threads and for more than [`Device::most_threads`],
    /// [`Error::Device`](crate::Error::Device) if they cannot be started.
    pub fn cpu_with_threads(threads: usize) -> Result<Self> {
        check_threads(threads)?;
        Ok(Self::Cpu(Cpu::new(threads)?))
    }

    /// Uses the NVIDIA GPU of this number.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the driver, the GPU or NVRTC is missing, with a remedy.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Ok(Self::Cuda(Cuda::new(ordinal)?))
    }

    /// Uses the NVIDIA GPUs of these numbers, which share the grid: each has consecutive rows of it.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for none, or one that is given twice; those of [`Device::cuda`].
    pub fn cards(ordinals: &[usize]) -> Result<Self> {
        match ordinals {
            [ordinal] => Self::cuda(*ordinal),
            _ => Ok(Self::Cards(Cards::open(ordinals)?)),
        }
    }

    /// Uses the first GPU if it works, else all cores, or `threads` threads.
    ///
    /// # Errors
    /// See [`Device::cpu_with_threads`].
    pub fn auto(threads: Option<usize>) -> Result<Self> {
        Self::cuda(0).or_else(|_| threads.map_or_else(Self::cpu, Self::cpu_with_threads))
    }

    /// Opens a device by `open` on another thread while `work` runs on the host: a GPU is opened in some 0.2 s. With `is_first`, the device is
    /// opened first, and `work` runs with the threads of [`Device::enter`].
    ///
    /// # Errors
    /// The errors of `open`.
    pub fn open_while<R: Send, E: Send>(
        is_first: bool,
        open: impl FnOnce() -> Result<Self, E> + Send,
        work: impl FnOnce() -> R + Send,
    ) -> Result<(Self, R), E> {
        if is_first {
            let device = open()?;
            let made = device.enter(work);
            return Ok((device, made));
        }
        std::thread::scope(|scope| {
            let opening = scope.spawn(open);
            let made = work();
            let device = opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((device, made))
        })
    }

    /// Fails in a process that was forked from the one that started this device's threads. Drivers and MPI report it themselves.
    pub(crate) fn require_process(&self) -> Result<()> {
        match self {
            Self::Cpu(backend) => require_process("the device", backend.process()),
            Self::Cuda(_) | Self::Cards(_) => Ok(()),
        }
    }

    /// Runs work on the host with the threads that this device's solvers use there: the device's own for a CPU, all cores for a
    /// GPU. Making problems and matrices uses the threads it is called on, and all cores where it is called elsewhere.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        match self {
            // Another process has none of its threads.
            _ if self.require_process().is_err() => work(),
            Self::Cpu(backend) => backend.alone().enter(work),
            Self::Cuda(_) | Self::Cards(_) => work(),
        }
    }

    /// Returns its GPU, if it is one.
    pub(crate) fn gpu(&self) -> Option<&Cuda> {
        match self {
            Self::Cuda(cuda) if self.ranks().is_none() => Some(cuda),
            _ => None,
        }
    }

    /// Makes a diffusion problem whose κ (one array, two for horizontal and vertical, or three) and c are in the memory of this GPU. Everything else is
    /// from `form`, whose own coefficients are not used.
    ///
    /// ```no_run
    /// # use isobar::problem::{Boundary, Coefficient, DiffusionProblem};
    /// # use isobar::{Device, DeviceArray, Shape, Solver};
    /// # fn main() -> isobar::Result<()> {
    /// # let (pointers, shape) = ([0; 3], Shape::new(64, 64, 64));
    /// // SAFETY: arrays of f64 on the first GPU, in C order; other work on them has finished.
    /// let [kappa, b, u] = pointers.map(|pointer| unsafe { DeviceArray::c_order::<f64>(pointer, shape, 0) });
    /// let mut form = DiffusionProblem::new(shape, Coefficient::Isotropic(Vec::new()));
    /// form.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
    /// let gpu = Device::cuda(0)?;
    /// let problem = gpu.diffusion(form, &[kappa], None)?;
    /// problem.write_rhs(None, &b)?;
    /// let mut solver = Solver::builder(&problem.stencil()?).device(&gpu).build()?;
    /// solver.solve(b, u)?;
    /// // Another κ, for the same solver.
    /// let problem = problem.with_coefficients(&[kappa], None)?;
    /// solver.update(&problem.stencil()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`DeviceProblem::new`]; [`Error::Unsupported`] for a device that is not one GPU.
    pub fn diffusion(
        &self,
        form: DiffusionProblem,
        kappa: &[DeviceArray],
        reaction: Option<&DeviceArray>,
    ) -> Result<DeviceProblem> {
        match self.gpu() {
            Some(cuda) => DeviceProblem::new(cuda, form, kappa, reaction),
            None => Err(Error::Unsupported(
                "coefficients in the memory of a GPU, for a device that is not one GPU; use that GPU".into(),
            )),
        }
    }

    /// Measures the bytes a second that a copy of a vector of this grid moves: the roofline of any solver.
    ///
    /// # Errors
    /// The errors of the device; no memory for two vectors.
    pub fn copy_bandwidth(&self, shape: Shape) -> Result<f64> {
        self.require_process()?;
        match self {
            // All ranks copy their subdomains at once.
            Self::Cpu(backend) => copy_bandwidth(&backend.alone(), backend.own_rows(shape)?.shape(shape)),
            Self::Cuda(backend) => copy_bandwidth(&backend.alone(), backend.own_rows(shape)?.shape(shape)),
            Self::Cards(cards) => cards.copy_bandwidth(shape),
        }
    }

    /// Returns the largest sensible number of threads: four a core, for cores that the system hides, or 256, which cost
    /// little anywhere. Thousands on a few cores spend minutes waiting for each other.
    pub fn most_threads() -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (4 * cores).max(256)
    }

    /// Returns its ranks; nothing if it is alone.
    pub(crate) fn ranks(&self) -> Option<&Arc<Ranks>> {
        match self {
            Self::Cpu(backend) => backend.ranks(),
            Self::Cuda(backend) => backend.ranks(),
            Self::Cards(_) => None,
        }
    }

    /// Opens a device by its name: `auto`, `cpu`, `cuda` (the first GPU), `cuda:N`, or several as `cuda:0,1`. `threads`
    /// is for the CPU.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for any other name, and for more than [`Device::most_threads`]; the
    /// errors of opening the device. `cuda` is never replaced by the CPU.
    pub fn parse(text: &str, threads: Option<usize>) -> Result<Self> {
        Self::named(text, threads)?.open(threads)
    }

    /// Returns the device of this name, having checked the number of threads.
    pub(crate) fn named(text: &str, threads: Option<usize>) -> Result<DeviceName> {
        threads.map_or(Ok(()), check_threads)?;
        text.parse().map_err(|message| Error::invalid("device", format!("{text:?}; {message}")))
    }
}

fn check_threads(threads: usize) -> Result<()> {
    let most = Device::most_threads();
    if threads > most {
        let message = format!("{threads}; use a number from 1 to {most}, such as the number of cores");
        return Err(Error::invalid("threads", message));
    }
    Ok(())
}

/// A device by its name, not yet opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceName {
    /// The first GPU if it works, else the processor's cores.
    #[default]
    Auto,
    /// The processor's cores.
    Cpu,
    /// The first GPU; on several ranks of a machine one GPU for each.
    Cuda,
    /// The GPUs with these numbers.
    Cards(Vec<usize>),
}

impl DeviceName {
    /// Opens it. `threads` is for the CPU, all cores by default.
    ///
    /// # Errors
    /// The errors of opening the device.
    pub fn open(&self, threads: Option<usize>) -> Result<Device> {
        match self {
            Self::Auto => Device::auto(threads),
            Self::Cpu => threads.map_or_else(Device::cpu, Device::cpu_with_threads),
            Self::Cuda => Device::cuda(0),
            Self::Cards(ordinals) => Device::cards(ordinals),
        }
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = |list: &str| list.split(',').map(str::parse).collect::<Result<_, _>>().ok();
        let named = match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda),
            _ => text.strip_prefix("cuda:").and_then(numbers).map(Self::Cards),
        };
        named.ok_or_else(|| {
            "use auto, cpu, cuda, cuda:N with the number of a device, as in cuda:1, or several, as in cuda:0,1".into()
        })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda => f.write_str("cuda"),
            Self::Cards(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        assert!(matches!(Device::parse("cpu", Some(1)), Ok(Device::Cpu(_))));
        assert!(matches!(Device::parse("cpu", Some(0)), Err(Error::Invalid { .. })));
        assert!(matches!(Device::parse("cpu", Some(1_000_000)), Err(Error::Invalid { .. })));
        assert!(matches!(Device::cpu_with_threads(usize::MAX), Err(Error::Invalid { .. })));
        assert!(Device::parse("auto", Some(1)).is_ok());
        for wrong in ["", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:0,", "cuda:0,0", "cuda:0 1"] {
            assert!(matches!(Device::parse(wrong, None), Err(Error::Invalid { .. })), "{wrong}");
        }
        assert!(matches!(Device::parse("cuda:1000", None), Err(Error::Device { .. })));
        for name in ["auto", "cpu", "cuda", "cuda:3", "cuda:1,0"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("cuda:1,0".parse(), Ok(DeviceName::Cards(vec![1, 0])));
    }
}
