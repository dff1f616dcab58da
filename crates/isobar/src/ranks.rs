//! Jobs of several processes.

use std::ops::Range;
use std::sync::Arc;

use isobar_core::prelude::{Error, Result, Shape};
use isobar_dist::communicator::agree;
use isobar_dist::{Communicator, Slabs, Tell, join, together};

use crate::device::{Device, DeviceName};
use crate::divided::{join_cuda, require_same};

/// The processes of a job that an MPI launcher such as `mpirun` started, or of a program's communicator, seen by one of them.
///
/// All of them make the same calls, for the same matrix with the same options. A [`Solver`](crate::Solver) on a [`Ranks::device`]
/// takes arrays of this rank's own rows, [`Ranks::rows`], as an [`ArrayView`](crate::ArrayView) of shape (nz, rows, nx); or
/// arrays of the whole grid, of which each rank reads and writes its own rows.
#[derive(Clone, Debug)]
pub struct Ranks {
    world: Arc<dyn Communicator>,
}

impl Ranks {
    /// Joins the job that this process was started in; returns nothing if no launcher started it as one of several, or
    /// `$ISOBAR_MPI` is empty. It may be called once.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the job has no MPI that can be used; the message gives the reason and the remedy.
    pub fn start() -> Result<Option<Self>> {
        #[cfg(unix)]
        if isobar_dist::mpi::is_launched() {
            return Ok(Some(Self { world: isobar_dist::mpi::start()? }));
        }
        Ok(None)
    }

    /// Uses the ranks of a communicator of a program that runs under MPI and calls `MPI_Init` before and `MPI_Finalize` after.
    /// The communicator is a number, as in Fortran; in C it is `MPI_Comm_c2f` of it. All of its ranks must call this. Messages
    /// use a duplicate of it, which is freed with the last solver on these ranks.
    ///
    /// If one rank fails all get its error, and the program continues. Ranks that hang are not detected. MPI with fewer
    /// threads than `MPI_THREAD_SERIALIZED` is called from the thread alone that initialised it; with several threads a rank its
    /// calls then wait for each other a little longer.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if MPI does not run in this process,
    /// [`Error::Invalid`](crate::Error::Invalid) for a number that is no communicator.
    pub fn on_communicator(communicator: i32) -> Result<Self> {
        #[cfg(unix)]
        return Ok(Self { world: isobar_dist::mpi::on_communicator(communicator)? });
        #[cfg(not(unix))]
        Err(Error::Unsupported(format!("communicator {communicator}: MPI on this system")))
    }

    /// Runs `work` on all ranks: on those of a program's communicator it succeeds on all, or fails on all with the error of the
    /// first rank that has one.
    ///
    /// # Errors
    /// The error of the first rank that has one.
    pub fn together<R, E: Tell>(&self, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        together(&*self.world, work)
    }

    /// Returns the number that the launcher gave this process, before the job is started; nothing if there is no launcher.
    pub fn launched() -> Option<usize> {
        #[cfg(unix)]
        return isobar_dist::mpi::launched_rank().filter(|_| isobar_dist::mpi::is_launched());
        #[cfg(not(unix))]
        None
    }

    /// Returns how many threads this process may use; the job's processes on this machine share its cores.
    pub fn threads(&self) -> usize {
        #[cfg(unix)]
        let here = isobar_dist::mpi::ranks_here().unwrap_or(1);
        #[cfg(not(unix))]
        let here = 1;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores / here.max(1)).max(1)
    }

    /// Returns the number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// Returns the number of processes.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Returns the number of this process among those of its machine, from 0.
    pub fn number_here(&self) -> Result<usize> {
        let host = isobar_cuda::peers::host().to_le_bytes();
        let all = self.world.all_gather_equal(&host)?;
        Ok(all.chunks(host.len()).take(self.rank()).filter(|other| **other == host).count())
    }

    /// Makes a device of all processes of the job, each with its `own`.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for several GPUs of one rank; the errors of the driver.
    pub fn device(&self, own: Device) -> Result<Device> {
        match own {
            Device::Cpu(cpu) => Ok(Device::Cpu(join(cpu, Arc::clone(&self.world)))),
            Device::Cuda(card) => Ok(Device::Cuda(join_cuda(&card, &self.world)?)),
            _ => Err(Error::Unsupported("several GPUs of each rank; start a rank for each".into())),
        }
    }

    /// Opens a device on every rank by the names of [`Device::parse`]: `auto` and `cpu` are this process's share of the cores, or
    /// `threads` threads; `cuda` gives each rank of a machine a GPU, `cuda:N` GPU N.
    ///
    /// # Errors
    /// See [`Device::parse`] and [`Ranks::device`].
    pub fn open(&self, device: &str, threads: Option<usize>) -> Result<Device> {
        self.together(|| {
            let here = self.number_here()?;
            self.device(Device::named(device, threads)?.open_own(self, here, threads)?)
        })
    }

    /// Returns the rows of a grid that this rank works on.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if there are more ranks than rows.
    pub fn rows(&self, shape: Shape) -> Result<Range<usize>> {
        let slab = Slabs::new(shape, self.size())?.of(self.rank());
        Ok(slab.first..slab.beyond)
    }

    /// Collects the subdomains of all ranks on rank 0, in an array of the whole grid, (nz, ny, nx) in C order, in which each has
    /// filled its own.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) for an array of another size; a failure of MPI.
    pub fn gather(&self, u: &mut [f64], shape: Shape) -> Result<()> {
        isobar_dist::gather(&*self.world, u, shape)
    }

    /// Collects the subdomains of all ranks, (nz, rows, nx) in C order, on each of them: (nz, ny, nx).
    ///
    /// # Errors
    /// See [`Ranks::collect_layers`].
    pub fn collect(&self, part: &[f64], shape: Shape) -> Result<Vec<f64>> {
        self.collect_layers(part, shape, &vec![0..shape.nz; self.size()])
    }

    /// Collects whole layers of a grid, `layers[rank]` on each rank, from the subdomains of all, (nz, rows, nx) in C order.
    /// Returns this rank's, (layers, ny, nx).
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) for another number of values, of ranks, or other layers; a failure of MPI.
    pub fn collect_layers(&self, part: &[f64], shape: Shape, layers: &[Range<usize>]) -> Result<Vec<f64>> {
        isobar_dist::collect_layers(&*self.world, part, shape, layers)
    }

    /// Broadcasts a text from rank 0 to all ranks.
    pub fn tell(&self, text: &str) -> Result<String> {
        let mut length = (text.len() as u64).to_le_bytes();
        self.world.broadcast(&mut length)?;
        let mut all = text.as_bytes().to_vec();
        all.resize(u64::from_le_bytes(length) as usize, 0);
        self.world.broadcast(&mut all)?;
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// Returns the largest of all ranks' values; NaN where one is.
    pub fn largest(&self, value: f64) -> Result<f64> {
        let all = self.world.all_gather_equal(&value.to_le_bytes())?;
        let values = all.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes));
        Ok(values.reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }).unwrap_or(value))
    }

    /// Returns `mine` where it is `Ok` on all ranks; otherwise all get the error of the first that failed, which names it.
    ///
    /// # Errors
    /// The error of the first rank that has one; a failure of MPI.
    pub fn agree<R>(&self, mine: Result<R>) -> Result<R> {
        agree(&*self.world, mine)
    }

    /// Fails on all ranks if one has other data than rank 0; `what` names the data in the message.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming that rank; a failure of MPI.
    pub fn require_same(&self, what: &str, data: &[u8]) -> Result<()> {
        require_same(&*self.world, what, data)
    }

    /// Sums the values of all ranks; all get the same sums.
    pub fn sum(&self, values: &mut [f64]) -> Result<()> {
        self.world.sum(values)
    }

    /// Ends all processes of the job with a message that names this one, and does not return.
    pub fn abort(&self, why: &str) {
        self.world.abort(why);
    }
}

impl DeviceName {
    /// Opens a rank's own device: its share of the cores for `auto` and `cpu`, the GPU of its number among the ranks of this
    /// machine, `here`, for `cuda`.
    ///
    /// # Errors
    /// The errors of opening the device; several GPUs.
    pub fn open_own(&self, ranks: &Ranks, here: usize, threads: Option<usize>) -> Result<Device> {
        match self {
            Self::Auto | Self::Cpu => Device::cpu_with_threads(threads.unwrap_or_else(|| ranks.threads())),
            Self::Cuda => Device::cuda(here % isobar_cuda::devices().map_or(1, |cards| cards.len().max(1))),
            Self::Cards(ordinals) if ordinals.len() > 1 => Err(Error::Unsupported(
                "a rank can use one GPU only; use cuda, which gives each rank one, or run on one rank".into(),
            )),
            Self::Cards(_) => self.open(threads),
        }
    }
}
