package org.refdb.gerrit.cache.h2;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * A file of an H2 cache of Gerrit, which is read with the H2 of Gerrit as bytes, so that no value is deserialised.
 *
 * <p>The path of the file says who used the cache last. If it is at its own path, H2 did, or refdb exported the cache,
 * and whatever refdb has stored is no newer. When refdb takes over, it sets the file aside under another name, so that
 * a return to H2 starts empty and cannot revive a session that was logged out since.
 */
final class H2File {
  static final String SUFFIX = ".mv.db";
  private static final String TRACE = ".trace.db";
  private static final String OWN = "-v2";
  private static final String ASIDE = "-before-refdb";
  private static final String IMPORTING = "-importing-to-refdb";
  private static final String CHANGED = IMPORTING + ".changed";
  private static final String EXPORTING = "-exported-by-refdb";
  private static final int ALREADY_IN_USE = 90020;

  /**
   * The error code of H2 for a query of a table in a file without tables. Gerrit creates the file when it starts, and
   * the table when something is stored.
   */
  private static final int EMPTY = 42104;

  private final Path directory;
  private final String cache;

  H2File(Path directory, String cache) {
    this.directory = directory;
    this.cache = cache;
  }

  /** Receives the entries of a file, until it returns false. */
  @FunctionalInterface
  interface Sink {
    boolean take(int version, byte[] key, byte[] value, long createdMillis);
  }

  /** Returns the path at which H2 keeps the file. */
  Path own() {
    return directory.resolve(cache + OWN + SUFFIX);
  }

  /** Returns the path of the file after refdb took over. */
  Path aside() {
    return directory.resolve(cache + ASIDE + SUFFIX);
  }

  /** Returns the path of the file during an import, including restarts. */
  Path importing() {
    return directory.resolve(cache + IMPORTING + SUFFIX);
  }

  /** Returns the path of the file with the keys that were changed since the import began. */
  Path changedKeys() {
    return directory.resolve(cache + CHANGED);
  }

  /** Returns the path of an export until it is complete. */
  Path exporting() {
    return directory.resolve(cache + EXPORTING + SUFFIX);
  }

  /** Returns whether a file was set aside, or was written by H2 beside such a file. */
  static boolean isAside(Path file) {
    return has(file, ASIDE, SUFFIX) || has(file, ASIDE, TRACE);
  }

  /** Returns whether a file belongs to an import in progress. */
  static boolean isImporting(Path file) {
    return has(file, IMPORTING, SUFFIX) || has(file, IMPORTING, TRACE) || file.toString().endsWith(CHANGED);
  }

  private static boolean has(Path file, String place, String suffix) {
    return file.getFileName().toString().endsWith(place + suffix);
  }

  /** Returns the cache of a file at its own path or of one that is being imported; null for any other file. */
  static String cacheOf(Path file) {
    String name = file.getFileName().toString();
    for (String end : new String[] {OWN + SUFFIX, IMPORTING + SUFFIX}) {
      if (name.endsWith(end) && name.length() > end.length()) {
        return name.substring(0, name.length() - end.length());
      }
    }
    return null;
  }

  /** Renames the file. A file that has the new name already is replaced. */
  void move(Path from, Path to) throws IOException {
    Files.move(from, to, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  /** Sets the file aside, because nothing in it is needed any more, and deletes what imports have left. */
  void setAside(Path from) throws IOException {
    move(from, aside());
    Files.deleteIfExists(importing());
    Files.deleteIfExists(changedKeys());
  }

  /**
   * The content of the file for one version of the cache.
   *
   * @param bytes the size of keys and values
   * @param newestMillis when the newest entry was created, in milliseconds since 1970
   */
  record Version(int version, long entries, long bytes, long newestMillis) {}

  /**
   * Returns the content for each version.
   *
   * @throws StoreOpener.InUseException if a server with H2 caches has the file open
   * @throws IOException if the file cannot be read
   */
  List<Version> versions(Driver driver, Path file) throws IOException {
    List<Version> versions = new ArrayList<>();
    String sql =
        "SELECT version, COUNT(*), SUM(OCTET_LENGTH(k) + OCTET_LENGTH(v)), MAX(created) FROM data GROUP BY version";
    query(driver, file, sql, rows -> {
      while (rows.next()) {
        versions.add(new Version(rows.getInt(1), rows.getLong(2), rows.getLong(3), millis(rows.getTimestamp(4))));
      }
    });
    return versions;
  }

  /**
   * Returns whether there are entries of one version. Gerrit's index of versions answers this at once, while counting
   * the entries takes half a second per million. The exceptions are those of {@link #versions}.
   */
  boolean has(Driver driver, Path file, int version) throws IOException {
    boolean[] has = new boolean[1];
    String sql = "SELECT version FROM data WHERE version = " + version + " FETCH FIRST ROW ONLY";
    query(driver, file, sql, rows -> has[0] = rows.next());
    return has[0];
  }

  /**
   * Checks that no server with H2 caches has the file at its own path open.
   *
   * @throws StoreOpener.InUseException if a server with H2 caches has the file at its own path open
   */
  void refuseIfInUse(Driver driver) throws StoreOpener.InUseException {
    if (Files.exists(own())) {
      try {
        hasTextKeys(driver, own());
      } catch (StoreOpener.InUseException e) {
        throw e;
      } catch (IOException e) {
        // The file is damaged, but not in use.
      }
    }
  }

  /** Returns whether the keys are text; null if the file has no table. */
  Boolean hasTextKeys(Driver driver, Path file) throws IOException {
    Boolean[] text = new Boolean[1];
    query(driver, file, "SELECT k FROM data WHERE FALSE", rows -> text[0] = isText(rows));
    return text[0];
  }

  private static boolean isText(ResultSet rows) throws SQLException {
    return rows.getMetaData().getColumnType(1) == Types.VARCHAR;
  }

  private static long millis(Timestamp time) {
    return time == null ? 0 : time.getTime();
  }

  /** Passes the entries to the sink until it returns false, the most recently used ones last. */
  void forEach(Driver driver, Path file, Sink sink) throws IOException {
    query(driver, file, "SELECT k, v, created, version FROM data ORDER BY accessed", rows -> {
      boolean textKeys = isText(rows);
      while (rows.next()) {
        byte[] key = textKeys ? rows.getString(1).getBytes(UTF_8) : rows.getBytes(1);
        if (!sink.take(rows.getInt(4), key, rows.getBytes(2), millis(rows.getTimestamp(3)))) {
          return;
        }
      }
    });
  }

  private interface Reader {
    void read(ResultSet rows) throws SQLException;
  }

  private static void query(Driver driver, Path file, String sql, Reader reader) throws IOException {
    try (Connection connection = connect(driver, file);
        Statement statement = connection.createStatement()) {
      try (ResultSet rows = statement.executeQuery(sql)) {
        reader.read(rows);
      } finally {
        // Without this, H2 keeps the file open after the last connection is closed, as a setting in the file demands.
        statement.execute("SHUTDOWN");
      }
    } catch (SQLException e) {
      if (e.getErrorCode() != EMPTY) {
        throw failure(file, e);
      }
    }
  }

  private static Connection connect(Driver driver, Path file) throws SQLException {
    String url = url(file) + ";ACCESS_MODE_DATA=r;IFEXISTS=TRUE;LAZY_QUERY_EXECUTION=1";
    Connection connection = driver.connect(url, new Properties());
    if (connection == null) {
      throw new SQLException(driver + " does not know " + url);
    }
    return connection;
  }

  /** Returns the URL by which H2 opens a file. */
  static String url(Path file) {
    String path = file.toUri().toString();
    return "jdbc:h2:" + path.substring(0, path.length() - SUFFIX.length());
  }

  private static IOException failure(Path file, SQLException e) {
    if (e.getErrorCode() == ALREADY_IN_USE) {
      return new StoreOpener.InUseException(file + " is open in a server with H2 caches; stop that first", e);
    }
    return new IOException("cannot read " + file + ": " + e.getMessage(), e);
  }
}
