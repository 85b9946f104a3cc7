package org.refdb.gerrit.install;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Driver;
import java.util.Enumeration;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipInputStream;

/** The H2 of a site's Gerrit, loaded from its gerrit.war or its lib folder; no other class of Gerrit is loaded. */
final class SiteH2 implements AutoCloseable {
  private static final String DRIVER = "org.h2.Driver";
  private static final String DRIVER_FILE = "org/h2/Driver.class";

  private final Path copy;
  private final URLClassLoader loader;
  private final Driver driver;

  private SiteH2(Path copy, URLClassLoader loader, Driver driver) {
    this.copy = copy;
    this.loader = loader;
    this.driver = driver;
  }

  /** Finds H2 in the war, or else in the folder. */
  static SiteH2 of(Path war, Path lib) throws IOException, InstallException {
    Path copy = Files.createTempFile("refdb-h2", ".jar");
    try {
      Path jar = extract(war, copy) ? copy : inFolder(lib);
      if (jar == null) {
        throw new InstallException(
            "neither "
                + war
                + " nor "
                + lib
                + " has H2: name the site's gerrit.war with --war FILE");
      }
      URLClassLoader loader =
          new URLClassLoader(new URL[] {jar.toUri().toURL()}, ClassLoader.getPlatformClassLoader());
      Driver driver = (Driver) loader.loadClass(DRIVER).getDeclaredConstructor().newInstance();
      return new SiteH2(copy, loader, driver);
    } catch (ReflectiveOperationException e) {
      Files.deleteIfExists(copy);
      throw new InstallException("cannot load H2 from " + war + ": " + e, e);
    } catch (IOException | InstallException e) {
      Files.deleteIfExists(copy);
      throw e;
    }
  }

  private static boolean extract(Path war, Path to) throws IOException {
    if (!Files.isRegularFile(war)) {
      return false;
    }
    try (ZipFile zip = new ZipFile(war.toFile())) {
      for (Enumeration<? extends ZipEntry> entries = zip.entries(); entries.hasMoreElements(); ) {
        ZipEntry entry = entries.nextElement();
        if (entry.getName().matches("WEB-INF/(lib|pgm-lib)/[^/]*\\.jar") && hasDriver(zip, entry)) {
          try (InputStream content = zip.getInputStream(entry)) {
            Files.copy(content, to, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
          }
          return true;
        }
      }
    }
    return false;
  }

  private static boolean hasDriver(ZipFile war, ZipEntry jar) throws IOException {
    try (ZipInputStream content = new ZipInputStream(war.getInputStream(jar))) {
      for (ZipEntry entry = content.getNextEntry(); entry != null; entry = content.getNextEntry()) {
        if (entry.getName().equals(DRIVER_FILE)) {
          return true;
        }
      }
    }
    return false;
  }

  private static Path inFolder(Path lib) throws IOException {
    if (Files.isDirectory(lib)) {
      try (DirectoryStream<Path> jars = Files.newDirectoryStream(lib, "*.jar")) {
        for (Path jar : jars) {
          try (ZipFile zip = new ZipFile(jar.toFile())) {
            if (zip.getEntry(DRIVER_FILE) != null) {
              return jar;
            }
          }
        }
      }
    }
    return null;
  }

  Driver driver() {
    return driver;
  }

  @Override
  public void close() throws IOException {
    loader.close();
    Files.deleteIfExists(copy);
  }
}
