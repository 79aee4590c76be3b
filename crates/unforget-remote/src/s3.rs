//! A remote in a bucket of any store that speaks S3's protocol.
//!
//! Everything rests on one promise of the store: an object that is created with `If-None-Match: *` is created once. There are stores that
//! ignore the header and overwrite, and on those two machines would overwrite each other's lines. So the first write of a process to a bucket
//! [proves](Bucket::prove) the promise, and a store that breaks it is refused.
//!
//! This module knows requests and answers, and neither streams nor segments. It reads no environment: what credentials
//! need is handed in, and the usual chain (keys, web identity, containers, instances) is object_store's.

mod answer;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::list::{PaginatedListOptions, PaginatedListStore as _};
use object_store::path::Path;
use object_store::{
    ClientConfigKey, ClientOptions, GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions,
    RetryConfig,
};

use crate::error::{Error, Result};
use crate::objects::{Kind, Names, ObjectShelf, Objects, Part, too_large};
use crate::packed::Packed;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long nothing may be heard while an answer is read.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a request may take with all that is sent and received.
const REQUEST: Duration = Duration::from_secs(300);
/// The most names that a store gives at once.
const MAX_NAMES: usize = 1_000;
/// The object that shows whether the store keeps its promise.
const PROBE: &str = "@probe";
/// How many buckets are remembered to have been proved.
const PROVED: usize = 1_000;

/// The buckets that this process has seen to keep the promise.
static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Which bucket, and how to reach it.
#[derive(Clone, Default)]
pub struct Settings {
    /// The bucket.
    pub bucket: String,
    /// What the names of all objects begin with; may be empty.
    pub prefix: String,
    /// The region; without one, what `options` say, or `us-east-1`.
    pub region: Option<String>,
    /// Where the store is, if it is not AWS; unencrypted only if this says `http://`.
    pub endpoint: Option<String>,
    /// How the bucket is named in requests.
    pub style: Style,
    /// What else object_store is to know, by its names or those of the environment (`AWS_ACCESS_KEY_ID` and so on). Names that it does not
    /// know are passed over, so that a whole environment may be handed in.
    pub options: Vec<(String, String)>,
}

/// How the bucket is named in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// In the path, which every store understands.
    #[default]
    Path,
    /// In the name of the host; an endpoint has to have it there already.
    Host,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values are keys and tokens.
        let names: Vec<&str> = self.options.iter().map(|(name, _)| name.as_str()).collect();
        let mut shown = f.debug_struct("Settings");
        shown.field("bucket", &self.bucket).field("prefix", &self.prefix).field("region", &self.region);
        shown.field("style", &self.style).field("options", &names).finish_non_exhaustive()
    }
}

/// A bucket; clones are the same place.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<AmazonS3>,
    /// Begins and ends every prefix: empty, or with a slash at its end.
    prefix: String,
    shown: String,
    /// What is remembered as proved.
    place: String,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.shown).finish()
    }
}

impl Bucket {
    /// A bucket by its settings. Nothing is asked yet, so a machine without a network can open it.
    pub fn open(settings: &Settings) -> Result<Self> {
        let wrong = |reason: String| Error::Invalid(format!("this bucket cannot be used: {reason}"));
        let prefix = settings.prefix.trim_matches('/');
        Path::parse(prefix).map_err(|error| wrong(error.to_string()))?;
        let mut builder = AmazonS3Builder::new();
        let mut region = settings.region.clone();
        let mut endpoint = settings.endpoint.clone();
        for (name, value) in &settings.options {
            let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() else { continue };
            match key {
                // What decides where requests go, and whether in the open, is said by the settings alone or checked below.
                AmazonS3ConfigKey::Bucket
                | AmazonS3ConfigKey::VirtualHostedStyleRequest
                | AmazonS3ConfigKey::ConditionalPut
                | AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp) => {}
                AmazonS3ConfigKey::Region | AmazonS3ConfigKey::DefaultRegion => {
                    region = region.or_else(|| Some(value.clone()));
                }
                AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint => {
                    endpoint = endpoint.or_else(|| Some(value.clone()));
                }
                key => builder = builder.with_config(key, value),
            }
        }
        let is_open = endpoint.as_deref().is_some_and(|endpoint| endpoint.to_ascii_lowercase().starts_with("http://"));
        let client = ClientOptions::new()
            .with_connect_timeout(CONNECT)
            .with_read_timeout(SILENCE)
            .with_timeout(REQUEST)
            .with_allow_http(is_open);
        // Asking again is the remote's: it tells the log, and knows what a repeated request means.
        let once = RetryConfig { max_retries: 0, retry_timeout: REQUEST, ..RetryConfig::default() };
        builder = builder
            .with_bucket_name(&settings.bucket)
            .with_client_options(client)
            .with_retry(once)
            .with_virtual_hosted_style_request(settings.style == Style::Host);
        if let Some(region) = &region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        }
        let store = builder.build().map_err(|error| wrong(error.to_string()))?;
        let shown = format!("`s3://{}`", [settings.bucket.as_str(), prefix].join("/").trim_end_matches('/'));
        Ok(Self {
            store: Arc::new(store),
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            place: format!("{} {shown}", endpoint.unwrap_or_default()),
            shown,
        })
    }

    /// A remote on this place.
    pub fn remote(&self) -> Packed<ObjectShelf<Self>> {
        Packed::new(ObjectShelf::new(self.clone()))
    }

    /// Makes sure that the store creates an object once, by creating one twice; asked once for a process and bucket. The first write does this by itself.
    pub async fn prove(&self) -> Result<()> {
        if KNOWN.lock().unwrap_or_else(PoisonError::into_inner).contains(&self.place) {
            return Ok(());
        }
        let probe = || self.put(PROBE, Bytes::from_static(b"."), PutMode::Create);
        // If it is there from an earlier time, one request says it all.
        if probe().await? && probe().await? {
            let reason = "it overwrites objects that are to be created only where there is none (`If-None-Match: *`), so \
                two machines could overwrite each other's lines; another store, or a newer version of this one, is needed";
            return Err(Error::Denied { place: self.name(), reason: reason.to_owned() });
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PROVED {
            known.clear();
        }
        known.insert(self.place.clone());
        Ok(())
    }

    fn path(&self, path: &str) -> Result<Path> {
        Path::parse(format!("{}{path}", self.prefix)).map_err(|error| Error::Invalid(error.to_string()))
    }

    async fn put(&self, path: &str, bytes: Bytes, mode: PutMode) -> Result<bool> {
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.store.put_opts(&self.path(path)?, bytes.into(), options).await {
            Ok(_) => Ok(true),
            Err(error) if answer::is_taken(&error) => Ok(false),
            Err(error) => Err(answer::explained(&error, &self.shown)),
        }
    }

    async fn get(&self, path: &str, part: Part) -> object_store::Result<Option<Bytes>> {
        let path = Path::parse(format!("{}{path}", self.prefix))?;
        let range = (part == Part::Start).then(|| GetRange::Bounded(0..part.limit()));
        let found = self.store.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await?;
        let asked = found.range.end.saturating_sub(found.range.start);
        if asked > part.limit() { Ok(None) } else { found.bytes().await.map(Some) }
    }
}

impl Objects for Bucket {
    fn name(&self) -> String {
        self.shown.clone()
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        self.prove().await?;
        self.put(path, bytes, PutMode::Create).await
    }

    async fn replace(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.put(path, bytes, PutMode::Overwrite).await.map(|_| ())
    }

    async fn read(&self, path: &str, part: Part) -> Result<Option<Bytes>> {
        match self.get(path, part).await {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => Err(too_large(&self.shown, path)),
            Err(error) if answer::is_missing(&error) => Ok(None),
            Err(error) => Err(answer::explained(&error, &self.shown)),
        }
    }

    async fn names(&self, dir: &str, kind: Kind, behind: Option<&str>, most: usize) -> Result<Names> {
        let prefix = format!("{}{dir}/", self.prefix);
        let offset = behind.map(|behind| match kind {
            Kind::Object => format!("{prefix}{behind}"),
            // Behind everything in that directory: `0` is what follows the slash.
            Kind::Directory => format!("{prefix}{behind}0"),
        });
        let options = PaginatedListOptions {
            offset,
            delimiter: Some("/".into()),
            max_keys: Some(most.min(MAX_NAMES)),
            ..PaginatedListOptions::default()
        };
        let page = self.store.list_paginated(Some(&prefix), options).await;
        let page = page.map_err(|error| answer::explained(&error, &self.shown))?;
        let paths: Vec<Path> = match kind {
            Kind::Object => page.result.objects.into_iter().map(|object| object.location).collect(),
            Kind::Directory => page.result.common_prefixes,
        };
        let names = paths.iter().filter_map(|path| path.as_ref().strip_prefix(&prefix));
        let names = names.filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned).collect();
        Ok(Names { names, has_more: page.page_token.is_some() })
    }

    async fn remove(&self, path: &str) -> Result<()> {
        match self.store.delete(&self.path(path)?).await {
            Err(error) if !answer::is_missing(&error) => Err(answer::explained(&error, &self.shown)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
