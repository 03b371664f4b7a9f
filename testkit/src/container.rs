//! A server in a container.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::mem::ManuallyDrop;
use std::sync::{Arc, LazyLock};

use testcontainers::core::Mount;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};
use tokio::runtime::{Builder, Runtime};

use crate::launch::Launch;
use crate::lifeline::Lifeline;

/// A container. Dropping it kills and removes it.
#[derive(Debug)]
pub(crate) struct Container {
    /// Never dropped: that requires a runtime, and the cleanup process removes the container.
    container: Arc<ManuallyDrop<ContainerAsync<GenericImage>>>,
    _lifeline: Lifeline,
}

impl Container {
    pub(crate) async fn start(launch: &Launch) -> Self {
        let name = format!("tollgate-{:016x}", RandomState::new().hash_one("container"));
        // Before the container starts, so that none is left behind if this process ends in between.
        let lifeline = Lifeline::new(&format!("docker rm --force {name}"));
        // A colon may also belong to the port of a registry.
        let tagged = launch.image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        let (image, tag) = tagged.unwrap_or((&launch.image, "latest"));
        let mut request = GenericImage::new(image, tag)
            .with_entrypoint(launch.program)
            .with_cmd(&launch.arguments)
            .with_network("host")
            .with_container_name(name);
        for (name, value) in &launch.environment {
            request = request.with_env_var(*name, *value);
        }
        if let Some(files) = launch.files.as_ref().map(|files| files.display().to_string()) {
            request = request.with_mount(Mount::bind_mount(files.clone(), files));
        }
        let container = on_engine(request.start()).await.unwrap_or_else(|error| {
            panic!(
                "cannot start {} in a container: {error}\nRun ./scripts/test, which prepares a container engine and \
                 its images, or set TOLLGATE_TEST_SERVERS=processes with {} installed.",
                launch.image, launch.program
            )
        });
        Self { container: ManuallyDrop::new(container).into(), _lifeline: lifeline }
    }

    pub(crate) async fn is_running(&self) -> bool {
        let container = Arc::clone(&self.container);
        on_engine(async move { container.is_running().await }).await.unwrap_or(false)
    }

    pub(crate) async fn freeze(&self) {
        let container = Arc::clone(&self.container);
        on_engine(async move { container.pause().await }).await.expect("the container is paused");
    }

    pub(crate) async fn thaw(&self) {
        let container = Arc::clone(&self.container);
        on_engine(async move { container.unpause().await }).await.expect("the container is resumed");
    }

    pub(crate) async fn log(&self) -> Vec<u8> {
        let container = Arc::clone(&self.container);
        let (out, err) =
            on_engine(async move { (container.stdout_to_vec().await, container.stderr_to_vec().await) })
                .await;
        [out.unwrap_or_default(), err.unwrap_or_default()].concat()
    }
}

/// Runs work on a runtime that lasts as long as the process: tests share the connections to the engine, and the runtime
/// of a test ends with it.
async fn on_engine<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime for the engine starts")
    });
    RUNTIME.spawn(work).await.expect("work on the engine completes")
}
