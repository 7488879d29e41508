//! Servers that tests start and stop: real ones, and one that misbehaves as told.
//!
//! Each listens on a free port of 127.0.0.1, answers when its constructor returns, keeps its data in
//! a temporary folder and is gone when it is dropped, or when the test's process ends in any way.
//! Where the programs of one are missing, its tests are skipped aloud:
//!
//! ```no_run
//! use testkit::{server::S3, skip_unless};
//!
//! skip_unless!(S3::NEEDS);
//! let s3 = S3::new();
//! s3.create_bucket("bucket");
//! s3.put("bucket/a/1.txt", "one");
//! let endpoint = s3.endpoint();
//! ```

mod daemon;
mod gcs;
pub mod http;
mod mariadb;
mod misbehaving;
mod moto;
mod nginx;
mod postgres;
mod s3;
mod sftp;
mod webdav;

pub use gcs::Gcs;
pub use mariadb::MariaDb;
pub use misbehaving::{Answer, Counts, Link, Misbehaving, Request};
pub use moto::Moto;
pub use nginx::Nginx;
pub use postgres::Postgres;
pub use s3::S3;
pub use sftp::Sftp;
pub use webdav::WebDav;

/// Changes with the bytes (FNV-1a): what `ETag`s are made of.
fn fingerprint(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
