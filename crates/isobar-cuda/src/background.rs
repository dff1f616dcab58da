//! Compilation of kernels in the background.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, Weak};
use std::time::Duration;

use crate::code::Code;
use crate::driver::lock;
use crate::nvrtc::Nvrtc;

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Weak<Code>>,
    threads: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: VecDeque::new(), threads: 0 });
/// Signalled when a thread ends.
static ENDED: Condvar = Condvar::new();

/// Compiles a kernel on one of as many threads as there are cores. Whoever needs it before its turn compiles it instead.
pub(crate) fn compile(code: &Arc<Code>) {
    end_before_the_process(&code.gpu.architecture());
    let mut queue = lock(&QUEUE);
    queue.waiting.push_back(Arc::downgrade(code));
    if queue.threads < std::thread::available_parallelism().map_or(1, usize::from) {
        // Without the thread, the kernel's first user compiles it.
        if std::thread::Builder::new().name("isobar-compile".into()).spawn(work).is_ok() {
            queue.threads += 1;
        }
    }
}

fn work() {
    loop {
        let mut queue = lock(&QUEUE);
        let Some(next) = queue.waiting.pop_front() else {
            queue.threads -= 1;
            ENDED.notify_all();
            return;
        };
        drop(queue);
        if let Some(code) = next.upgrade() {
            // Errors are reported to the solver that needs the kernel.
            let _ = code.compile();
        }
    }
}

/// Makes the process wait for running compilations when it exits, before the compiler's own clean-up. The system calls the function
/// that was registered last first, and the compiler registers its clean-up during its first compilation, which is therefore done here.
fn end_before_the_process(architecture: &str) {
    static REGISTERED: Once = Once::new();
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn end() {
        // A forked process has none of these threads.
        if std::process::id() != PROCESS.load(Ordering::Relaxed) {
            return;
        }
        let mut queue = lock(&QUEUE);
        queue.waiting.clear();
        drop(ENDED.wait_timeout_while(queue, Duration::from_secs(10), |queue| queue.threads > 0));
    }
    REGISTERED.call_once(|| {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        if let Ok(compiler) = Nvrtc::get() {
            const SMALL: &str = "extern \"C\" __global__ void small(double* x) { x[0] = sin(x[1]); }";
            // Errors are reported to the solver that needs a kernel.
            let _ = compiler.compile("small.cu", SMALL, &[format!("--gpu-architecture={architecture}")]);
        }
        unsafe extern "C" {
            fn atexit(function: extern "C" fn()) -> c_int;
        }
        // SAFETY: declared as in stdlib.h; the function is of this library, and does not unwind.
        let _ = unsafe { atexit(end) };
    });
}
