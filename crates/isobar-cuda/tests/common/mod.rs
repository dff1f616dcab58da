//! Trials on the first GPU. Without a GPU they are reported as ignored, or, with `ISOBAR_REQUIRE_CUDA=1`, as failed.

use std::process::ExitCode;
use std::sync::Arc;

use isobar_core::conformance::Checks;
use isobar_cuda::Cuda;
use libtest_mimic::{Arguments, Failed, Trial};

/// Returns whether an environment variable is 1.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}

/// Trials that need a resource: the resource, or the reason why it is missing, printed once.
pub(crate) struct Needing<N> {
    needed: Result<N, String>,
    required: bool,
    trials: Vec<Trial>,
}

impl<N: Clone + Send + Sync + 'static> Needing<N> {
    /// Takes the resource, and the variable that makes its absence a failure.
    pub(crate) fn new(needed: isobar_core::Result<N>, variable: &str) -> Self {
        let (needed, required) = (needed.map_err(|error| error.to_string()), is_set(variable));
        if let Err(reason) = &needed
            && !required
        {
            eprintln!("ignored: {reason}");
        }
        Self { needed, required, trials: Vec::new() }
    }

    /// Adds a check.
    pub(crate) fn add(&mut self, name: impl Into<String>, check: impl FnOnce(&N) + Send + 'static) {
        let trial = match self.needed.clone() {
            Ok(needed) => Trial::test(name, move || {
                check(&needed);
                Ok(())
            }),
            Err(reason) => Trial::test(name, || Err(Failed::from(reason))).with_ignored_flag(!self.required),
        };
        self.trials.push(trial);
    }

    /// Runs all trials, as selected on the command line.
    pub(crate) fn run(self) -> ExitCode {
        libtest_mimic::run(&Arguments::from_args(), self.trials).exit_code()
    }
}

/// Trials on the first GPU, opened once: they share its stream.
#[allow(dead_code, reason = "not every test needs a GPU")]
pub(crate) type OnCard = Needing<Cuda>;

#[allow(dead_code, reason = "not every test needs a GPU")]
impl OnCard {
    /// Makes an empty list of trials.
    pub(crate) fn on_card() -> Self {
        Self::new(Cuda::new(0), "ISOBAR_REQUIRE_CUDA")
    }

    /// Adds a suite.
    pub(crate) fn add_suite(&mut self, suite: &str, checks: Checks<Cuda>) {
        for (name, check) in checks {
            let check = Arc::from(check);
            let check: Arc<dyn Fn(&Cuda) + Send + Sync> = check;
            self.add(format!("{suite}::{name}"), move |cuda| check(cuda));
        }
    }
}
