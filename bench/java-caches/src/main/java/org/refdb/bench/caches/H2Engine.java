package org.refdb.bench.caches;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.Properties;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

/** H2 as Gerrit uses it: its table, its statements, its pool. Every hit updates the time of access. */
final class H2Engine implements Engine {
  private final String url;
  private final BlockingQueue<Handle> pool =
      new ArrayBlockingQueue<>(Math.min(Runtime.getRuntime().availableProcessors(), 16));

  H2Engine(Path folder) throws SQLException {
    url = "jdbc:h2:" + folder.resolve("bench-v2").toUri() + ";DB_CLOSE_DELAY=-1";
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      statement.execute(
          "CREATE TABLE IF NOT EXISTS data(k OTHER NOT NULL PRIMARY KEY HASH, v OTHER NOT NULL,"
              + " created TIMESTAMP NOT NULL, accessed TIMESTAMP NOT NULL)");
      statement.execute("ALTER TABLE data ADD COLUMN IF NOT EXISTS space BIGINT AS OCTET_LENGTH(k) + OCTET_LENGTH(v)");
      statement.execute("ALTER TABLE data ADD COLUMN IF NOT EXISTS version INT DEFAULT 0 NOT NULL");
      statement.execute("CREATE INDEX IF NOT EXISTS version_key ON data(version, k)");
      statement.execute("CREATE INDEX IF NOT EXISTS accessed ON data(accessed)");
    }
  }

  private Connection connect() throws SQLException {
    return new org.h2.Driver().connect(url, new Properties());
  }

  private static final class Handle {
    final Connection connection;
    final PreparedStatement get;
    final PreparedStatement touch;
    final PreparedStatement put;

    Handle(Connection connection) throws SQLException {
      this.connection = connection;
      get = connection.prepareStatement("SELECT v, created FROM data WHERE k=? AND version=?");
      touch = connection.prepareStatement("UPDATE data SET accessed=? WHERE k=? AND version=?");
      put = connection.prepareStatement("MERGE INTO data (k, v, version, created, accessed) VALUES(?,?,?,?,?)");
    }
  }

  private Handle acquire() throws SQLException {
    Handle handle = pool.poll();
    return handle != null ? handle : new Handle(connect());
  }

  private void release(Handle handle) throws SQLException {
    if (!pool.offer(handle)) {
      handle.connection.close();
    }
  }

  @Override
  public byte[] get(byte[] key) throws SQLException {
    Handle handle = acquire();
    try {
      handle.get.setBytes(1, key);
      handle.get.setInt(2, 1);
      byte[] value;
      try (ResultSet row = handle.get.executeQuery()) {
        if (!row.next()) {
          return null;
        }
        value = row.getBytes(1);
      }
      handle.touch.setTimestamp(1, new Timestamp(System.currentTimeMillis()));
      handle.touch.setBytes(2, key);
      handle.touch.setInt(3, 1);
      handle.touch.executeUpdate();
      return value;
    } finally {
      release(handle);
    }
  }

  @Override
  public boolean put(byte[] key, byte[] value) throws SQLException {
    Handle handle = acquire();
    try {
      Timestamp now = new Timestamp(System.currentTimeMillis());
      handle.put.setBytes(1, key);
      handle.put.setBytes(2, value);
      handle.put.setInt(3, 1);
      handle.put.setTimestamp(4, now);
      handle.put.setTimestamp(5, now);
      handle.put.executeUpdate();
      return true;
    } finally {
      release(handle);
    }
  }

  @Override
  public void clear() throws SQLException {
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      statement.executeUpdate("DELETE FROM data");
    }
  }

  @Override
  public void close() throws SQLException {
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      statement.execute("SHUTDOWN");
    }
  }
}
