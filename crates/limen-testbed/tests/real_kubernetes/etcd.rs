//! etcd alone.

use std::time::Instant;

use anyhow::{Context, Result};
use limen_testbed::{ClientTls, Etcd};

use crate::etcd_client;

#[tokio::test]
async fn etcd_with_tls_keeps_its_data_through_kill_and_restart() -> Result<()> {
    let start = Instant::now();
    let mut etcd = Etcd::builder().tls().start().await?;
    eprintln!("etcd ready after {:?}", start.elapsed());
    let (endpoint, first) = (etcd.endpoint().to_owned(), etcd.pid());
    etcd_client::put(&etcd, "fruit", "quince").await?;

    etcd.kill().await?;
    assert_eq!(etcd.pid(), None);
    assert!(etcd_client::get(&etcd, "fruit").await.is_err(), "nobody is there to answer");

    let start = Instant::now();
    etcd.restart().await?;
    eprintln!("etcd ready again after {:?}", start.elapsed());
    assert_eq!(etcd.endpoint(), endpoint);
    assert_ne!(etcd.pid(), first);
    assert_eq!(etcd_client::get(&etcd, "fruit").await?.as_deref(), Some("quince"));

    etcd.stop().await?;
    etcd.restart().await?;
    assert_eq!(etcd_client::get(&etcd, "fruit").await?.as_deref(), Some("quince"));
    Ok(())
}

#[tokio::test]
async fn etcd_with_tls_refuses_strangers() -> Result<()> {
    let etcd = Etcd::builder().tls().unsafe_no_fsync().start().await?;
    let other = Etcd::builder().tls().unsafe_no_fsync().start().await?;
    let known = etcd.client_tls().context("it has TLS")?;
    let stranger = other.client_tls().context("it has TLS")?;

    let strange_client = ClientTls { ca_pem: known.ca_pem.clone(), ..stranger.clone() };
    let strange_server = ClientTls { ca_pem: stranger.ca_pem.clone(), ..known.clone() };

    assert!(etcd_client::get_as(&etcd, Some(&strange_client), "fruit").await.is_err());
    assert!(etcd_client::get_as(&etcd, Some(&strange_server), "fruit").await.is_err());
    assert_eq!(etcd_client::get_as(&etcd, Some(known), "fruit").await?, None);
    Ok(())
}

#[tokio::test]
async fn data_dir_outlives_its_etcd_and_serves_the_next() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let first = Etcd::builder().data_dir(folder.path()).start().await?;
    etcd_client::put(&first, "fruit", "medlar").await?;
    drop(first);

    let second = Etcd::builder().data_dir(folder.path()).start().await?;

    assert_eq!(second.data_dir(), folder.path());
    assert_eq!(etcd_client::get(&second, "fruit").await?.as_deref(), Some("medlar"));
    Ok(())
}
