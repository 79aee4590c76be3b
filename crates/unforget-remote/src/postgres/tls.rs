//! How a server is trusted.
//!
//! Without `verify-full` or a root of one's own a connection is encrypted with whoever answers, as the protocol's own clients
//! do: it keeps out those who listen, not those who stand in between. What is never given up is that the server holds the key of the
//! certificate that it shows.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::Trust;
use crate::error::{Error, Result};

/// What makes connections that are trusted in this way.
pub(super) fn connector(trust: &Trust) -> Result<MakeRustlsConnect> {
    let wrong = |reason: String| Error::Invalid(format!("the certificates to trust cannot be had: {reason}"));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anybody => Arc::new(Anybody { provider: provider.clone() }),
        Trust::System => Arc::new(
            rustls_platform_verifier::Verifier::new(provider.clone()).map_err(|error| wrong(error.to_string()))?,
        ),
        Trust::Roots(path) => {
            let wrong = |error: String| wrong(format!("`{}`: {error}", path.display()));
            let mut roots = RootCertStore::empty();
            for root in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
                let root = root.map_err(|error| wrong(error.to_string()))?;
                roots.add(root).map_err(|error| wrong(error.to_string()))?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| wrong(error.to_string()))?
        }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Takes every certificate.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
