//! Registered repositories.

use opkit_domain::access::Scope;
use opkit_domain::ids::RepositoryId;
use opkit_domain::objective::Integration;
use opkit_domain::view::RepoView;

use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// A repository row.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct RepoRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) base: String,
    pub(crate) setup: Option<String>,
    pub(crate) verify: Option<String>,
    pub(crate) integrate: String,
    /// Checkouts made ahead; none = the installation's number.
    pub(crate) pool: Option<i64>,
}

impl RepoRow {
    pub(crate) fn id(&self) -> RepositoryId {
        RepositoryId(self.id)
    }

    pub(crate) fn integrate(&self) -> Integration {
        self.integrate.parse().unwrap_or(Integration::Keep)
    }
}

/// What a new repository row holds.
pub(crate) struct NewRepoRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: &'a str,
    pub(crate) base: &'a str,
    pub(crate) setup: Option<&'a str>,
    pub(crate) verify: Option<&'a str>,
    pub(crate) integrate: Integration,
}

/// What changes in a repository row; none = as it is.
#[derive(Debug, Default)]
pub(crate) struct RepoChange<'a> {
    pub(crate) setup: Option<Option<&'a str>>,
    pub(crate) verify: Option<Option<&'a str>>,
    pub(crate) integrate: Option<Integration>,
    pub(crate) pool: Option<Option<u32>>,
}

impl Store {
    pub(crate) async fn repo(&self, scope: Scope, id: RepositoryId) -> Result<RepoRow> {
        let row: Option<RepoRow> = sqlx::query_as(
            "SELECT id, name, source, base, setup, verify, integrate, pool FROM repository
             WHERE client_id = $1 AND id = $2",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .fetch_optional(&self.read)
        .await?;
        row.ok_or_else(|| Error::NotFound("That repository is not here.".into()))
    }

    pub(crate) async fn repo_by_name(&self, scope: Scope, name: &str) -> Result<Option<RepoRow>> {
        Ok(sqlx::query_as(
            "SELECT id, name, source, base, setup, verify, integrate, pool FROM repository
             WHERE client_id = $1 AND name = $2",
        )
        .bind(scope.client.0)
        .bind(name)
        .fetch_optional(&self.read)
        .await?)
    }

    pub(crate) async fn repos(&self, scope: Scope) -> Result<Vec<RepoView>> {
        type Row = (i64, String, String, String, Option<String>, Option<String>, String, Option<i64>, i64);
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT r.id, r.name, r.source, r.base, r.setup, r.verify, r.integrate, r.pool,
                    (SELECT COUNT(*) FROM objective o WHERE o.repository_id = r.id)
             FROM repository r WHERE r.client_id = $1 ORDER BY r.name",
        )
        .bind(scope.client.0)
        .fetch_all(&self.read)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(id, name, source, base, setup, verify, integrate, pool, objectives)| RepoView {
                id: RepositoryId(id),
                name,
                source,
                base,
                setup,
                verify,
                integrate: integrate.parse().unwrap_or(Integration::Keep),
                pool: pool.map(|pool| pool as u32),
                ready: 0,
                notes: vec![],
                objectives: objectives as u32,
            })
            .collect())
    }
}

/// Inserts a repository and gives its number.
pub(crate) async fn insert(tx: &mut Tx, scope: Scope, new: &NewRepoRow<'_>) -> Result<RepositoryId> {
    let made = sqlx::query(
        "INSERT INTO repository (client_id, name, source, base, setup, verify, integrate, created_at)
         VALUES ($1, $2, $3, $4, $8, $5, $6, $7)",
    )
    .bind(scope.client.0)
    .bind(new.name)
    .bind(new.source)
    .bind(new.base)
    .bind(new.verify)
    .bind(new.integrate.as_str())
    .bind(now_ms())
    .bind(new.setup)
    .execute(&mut **tx)
    .await;
    match made {
        Ok(made) => Ok(RepositoryId(made.last_insert_rowid())),
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Err(Error::Conflict(format!(
            "A repository named “{}” is registered already. Give another name.",
            new.name
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Changes a repository's commands, integration or number of checkouts made ahead.
pub(crate) async fn update(
    tx: &mut Tx,
    scope: Scope,
    id: RepositoryId,
    change: &RepoChange<'_>,
) -> Result<()> {
    sqlx::query(
        "UPDATE repository SET setup = CASE WHEN $3 THEN $4 ELSE setup END,
            verify = CASE WHEN $5 THEN $6 ELSE verify END, integrate = COALESCE($7, integrate),
            pool = CASE WHEN $8 THEN $9 ELSE pool END WHERE client_id = $1 AND id = $2",
    )
    .bind(scope.client.0)
    .bind(id.0)
    .bind(change.setup.is_some())
    .bind(change.setup.flatten())
    .bind(change.verify.is_some())
    .bind(change.verify.flatten())
    .bind(change.integrate.map(Integration::as_str))
    .bind(change.pool.is_some())
    .bind(change.pool.flatten())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
