//! `opkit serve`: opens the data, the doors and the set-up link, and leaves in good order.

use std::future::IntoFuture;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use opkit_engine::Engine;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing_subscriber::EnvFilter;

use super::arguments::ServeArgs;
use super::output::say;
use crate::config::{self, PublicUrl, Settings};
use crate::web::{Door, Hosts, Peer, Site, control_router, public_router, session_router};

/// Runs until a signal.
pub(super) fn run(data: PathBuf, args: ServeArgs) -> anyhow::Result<ExitCode> {
    give_memory_back();
    let mut listen = Vec::new();
    for text in &args.listen {
        listen.push(config::address(text)?);
    }
    if listen.is_empty() {
        listen.push(SocketAddr::from(([127, 0, 0, 1], 3000)));
    }
    let public = args.public_url.as_deref().map(PublicUrl::parse).transpose()?;
    let unknown = config::check_names()?;
    let settings = Settings { data, listen, public, site: config::site() };
    start_logging();
    for sentence in unknown {
        tracing::warn!("{sentence}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the machine gives no runtime for the server")?;
    let result = runtime.block_on(serve(settings));
    runtime.shutdown_timeout(Duration::from_millis(300));
    result.map(|()| ExitCode::SUCCESS)
}

/// Starts this program again, once, with a fixed threshold for large blocks. The C library otherwise raises it after
/// the first login and keeps the 19 MB that hashing a password took for good.
fn give_memory_back() {
    use std::os::unix::process::CommandExt;
    const NAME: &str = "MALLOC_MMAP_THRESHOLD_";
    if std::env::var_os(NAME).is_some() {
        return;
    }
    let mut args = std::env::args_os();
    if let (Some(name), Ok(program)) = (args.next(), std::env::current_exe()) {
        // It comes back only when it failed: then this process serves, with more memory.
        let _ = std::process::Command::new(program).arg0(name).args(args).env(NAME, "131072").exec();
    }
}

fn start_logging() {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,tower_sessions=error,tower_sessions_core=error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// What runs once the server has started.
struct Running {
    engine: Engine,
    door: Door,
    control: PathBuf,
    listeners: Listeners,
}

type Listeners = JoinSet<std::io::Result<()>>;

async fn serve(settings: Settings) -> anyhow::Result<()> {
    let mut signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let running = tokio::select! {
        running = start(settings) => running?,
        () = wait(&mut signals) => return Ok(()),
    };
    wait(&mut signals).await;
    tracing::info!("the server leaves; sessions go on");
    leave(running).await;
    Ok(())
}

async fn start(settings: Settings) -> anyhow::Result<Running> {
    let site = Site::find(settings.site)?;
    let engine = Engine::open(config::engine(&settings.data, site.build_id())?).await?;
    let owner = engine.has_owner().await?;
    if let Some(address) = settings.listen.iter().find(|address| !owner && !address.ip().is_loopback()) {
        bail!(
            "{address} can be reached by others, and there is no owner yet. Create one first: \
             `opkit setup --owner NAME --password-stdin`"
        );
    }
    let mut sockets = Vec::new();
    for address in &settings.listen {
        sockets.push(bind(*address).await?);
    }
    let addresses = sockets.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    let door = Door::new(engine.clone(), site, Hosts::new(settings.public), owner);
    let mut listeners = Listeners::new();
    open_session_door(&engine, &door, &mut listeners).await?;
    let control = open_control_socket(&engine, &door, &mut listeners)?;
    for socket in sockets {
        let app = public_router(door.clone()).into_make_service_with_connect_info::<SocketAddr>();
        listeners.spawn(axum::serve(socket, app).with_graceful_shutdown(left(&door)).into_future());
    }
    engine.start();
    announce(&door, &addresses);
    Ok(Running { engine, door, control, listeners })
}

/// Resolves when the server is about to leave.
fn left(door: &Door) -> impl Future<Output = ()> + Send + 'static {
    let mut leaving = door.leaving();
    async move {
        let _ = leaving.wait_for(|leaving| *leaving).await;
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            bail!("{address} is in use by another program. Stop it, or choose another address with --listen")
        }
        Err(error) => bail!("{address} cannot be listened on: {error}"),
    }
}

async fn open_session_door(engine: &Engine, door: &Door, listeners: &mut Listeners) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no port for the session door")?;
    engine.publish_session_door(listener.local_addr()?)?;
    let app = session_router(door.clone());
    listeners.spawn(axum::serve(listener, app).with_graceful_shutdown(left(door)).into_future());
    Ok(())
}

fn open_control_socket(engine: &Engine, door: &Door, listeners: &mut Listeners) -> anyhow::Result<PathBuf> {
    let path = engine.run_dir().join("control.sock");
    // We hold the lock on the data directory: whoever made this one is gone.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("{} cannot be replaced", path.display()));
        }
        _ => {}
    }
    let listener = UnixListener::bind(&path).with_context(|| format!("{} cannot be made", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let app = control_router(door.clone()).into_make_service_with_connect_info::<Peer>();
    listeners.spawn(axum::serve(listener, app).with_graceful_shutdown(left(door)).into_future());
    Ok(path)
}

fn announce(door: &Door, addresses: &[SocketAddr]) {
    for address in addresses {
        say(format!("listening on http://{address}"));
    }
    if let (false, Some(address)) = (door.has_owner(), addresses.first()) {
        say(format!("set-up link: http://{address}/setup?token={}", door.setup().issue()));
    }
}

async fn wait(signals: &mut (Signal, Signal)) {
    tokio::select! {
        _ = signals.0.recv() => {}
        _ = signals.1.recv() => {}
    }
}

/// At most four seconds, whatever hangs.
async fn leave(mut running: Running) {
    if timeout(Duration::from_secs(2), running.engine.drain()).await.is_err() {
        tracing::warn!("the engine did not finish in time; it catches up at the next start");
    }
    running.door.leave();
    let closed = async {
        running.door.all_gone().await;
        while running.listeners.join_next().await.is_some() {}
    };
    if timeout(Duration::from_secs(2), closed).await.is_err() {
        tracing::warn!("some connections were cut");
    }
    let _ = std::fs::remove_file(&running.control);
}
