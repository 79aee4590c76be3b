//! A proxy that ends TLS before a server, as servers of a cluster on several machines have one.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::Result;

/// A certificate for `localhost`.
#[derive(Debug, Clone)]
pub struct Certificate(Arc<ServerConfig>);

impl Certificate {
    /// Makes one and leaves it in a file, which a client names in `SSL_CERT_FILE` to trust it.
    #[expect(clippy::disallowed_methods, reason = "a file of the test, not of a store")]
    pub fn new(file: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(|error| error.to_string())?;
        std::fs::write(file, made.cert.pem()).map_err(|error| error.to_string())?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.into()], key.into());
        config.map(|config| Self(Arc::new(config))).map_err(|error| error.to_string())
    }
}

/// The proxy; it stops with the test.
#[derive(Debug)]
pub struct TlsProxy {
    /// Where it is reached.
    pub url: String,
    to: Arc<OnceLock<SocketAddr>>,
}

impl TlsProxy {
    /// One that leads nowhere yet.
    pub fn new(certificate: &Certificate) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let to: Arc<OnceLock<SocketAddr>> = Arc::default();
        let (acceptor, leads) = (TlsAcceptor::from(certificate.0.clone()), to.clone());
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, to) = (acceptor.clone(), leads.get().copied());
                    tokio::spawn(async move {
                        // What breaks here breaks for the two at its ends, who say so.
                        let (Ok(mut here), Some(to)) = (acceptor.accept(stream).await, to) else { return };
                        let Ok(mut there) = TcpStream::connect(to).await else { return };
                        drop(copy_bidirectional(&mut here, &mut there).await);
                    });
                }
            });
        });
        Ok(Self { url: format!("https://localhost:{port}"), to })
    }

    /// Leads to a server, whose address is `http://host:port`.
    pub fn lead_to(&self, url: &str) -> Result {
        let address = url.strip_prefix("http://").and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| format!("{url} is no address"))?;
        self.to.set(address).map_err(|_| "it leads somewhere already".to_owned())
    }
}
