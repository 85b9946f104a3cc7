package org.refdb.it;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import org.junit.jupiter.api.Test;

/** What the jar for Gerrit and the plugins inside it contain, and what they say about their parts. */
final class JarsTest {
  private static final String PLUGIN = "plugins/refdb.jar";
  private static final String GLOBAL_PLUGIN = "plugins/refdb-global.jar";
  private static final String CHRONICLE_READER = "import/chronicle-reader.jar";

  private static Map<String, byte[]> contents(InputStream jar) throws IOException {
    Map<String, byte[]> files = new TreeMap<>();
    try (ZipInputStream entries = new ZipInputStream(jar)) {
      for (ZipEntry entry = entries.getNextEntry(); entry != null; entry = entries.getNextEntry()) {
        files.put(entry.getName(), entries.readAllBytes());
      }
    }
    return files;
  }

  private static List<Map<String, byte[]>> jars() throws IOException {
    Map<String, byte[]> whole = contents(Files.newInputStream(GerritServer.JAR));
    return List.of(whole, contents(new ByteArrayInputStream(whole.get(PLUGIN))));
  }

  private static String text(Map<String, byte[]> jar, String file) {
    byte[] bytes = jar.get("META-INF/" + file);
    assertTrue(bytes != null, file + " is missing");
    return new String(bytes, UTF_8);
  }

  @Test
  void bothJarsNameTheirPartsAndTheLicencesOfEach() throws IOException {
    for (Map<String, byte[]> jar : jars()) {
      assertTrue(text(jar, "LICENSE-APACHE").contains("Apache License"));
      assertTrue(text(jar, "LICENSE-MIT").contains("MIT License"));
      assertTrue(text(jar, "NOTICE").startsWith("refdb\n"));
      String notices = text(jar, "THIRD-PARTY-NOTICES.txt");
      JsonObject bill = JsonParser.parseString(text(jar, "refdb-gerrit.cdx.json")).getAsJsonObject();
      assertEquals("CycloneDX", bill.get("bomFormat").getAsString());
      JsonArray parts = bill.getAsJsonArray("components");
      assertTrue(parts.size() > 20, parts.size() + " parts");
      for (JsonElement element : parts) {
        JsonObject part = element.getAsJsonObject();
        String name = part.get("name").getAsString();
        String licence = part.getAsJsonArray("licenses").get(0).getAsJsonObject().get("expression").getAsString();
        assertTrue(
            notices.contains("  " + name + " " + part.get("version").getAsString() + ": " + licence + "\n"), name);
        assertTrue(name.equals("rust-std") || part.getAsJsonArray("hashes").size() == 1, name + " has no checksum");
      }
    }
  }

  /** A search for a vulnerable part reads the bill of the downloaded jar, and opens no jar within it. */
  @Test
  void theBillOfTheWholeNamesThePartsOfThePluginsInIt() throws IOException {
    Map<String, byte[]> whole = jars().getFirst();
    Map<String, byte[]> plugin = contents(new ByteArrayInputStream(whole.get(GLOBAL_PLUGIN)));
    JsonArray parts = components(whole, "refdb-gerrit.cdx.json");
    for (JsonElement part : components(plugin, "refdb-global.cdx.json")) {
      assertTrue(parts.contains(part), part.toString());
    }
    assertTrue(text(whole, "THIRD-PARTY-NOTICES.txt").contains(text(plugin, "THIRD-PARTY-NOTICES.txt")));
  }

  private static JsonArray components(Map<String, byte[]> jar, String bill) {
    return JsonParser.parseString(text(jar, bill)).getAsJsonObject().getAsJsonArray("components");
  }

  @Test
  void whatIsNotNamedIsNotInTheJars() throws IOException {
    for (Map<String, byte[]> jar : jars()) {
      assertEquals(List.of(), classesBut(jar, "org/refdb/"));
      assertEquals(
          List.of(),
          jar.keySet().stream()
              .filter(file -> file.endsWith(".jar") && !List.of(PLUGIN, GLOBAL_PLUGIN, CHRONICLE_READER).contains(file))
              .toList());
    }
    // ChronicleMap's files name the classes that read their keys and values: ours have these names.
    Map<String, byte[]> reader = contents(new ByteArrayInputStream(jars().getFirst().get(CHRONICLE_READER)));
    assertEquals(List.of(), classesBut(reader, "org/refdb/", "com/googlesource/gerrit/modules/cache/chroniclemap/"));
  }

  @Test
  void thePluginOfTheGlobalRefDatabaseHasNoClassUnderTheNameOfAnother() throws IOException {
    Map<String, byte[]> plugin = contents(new ByteArrayInputStream(jars().getFirst().get(GLOBAL_PLUGIN)));
    assertEquals(List.of(), classesBut(plugin, "org/refdb/gerrit/global/"));
    assertTrue(plugin.containsKey("org/refdb/gerrit/global/shaded/io/etcd/jetcd/Client.class"));
    String notices = text(plugin, "THIRD-PARTY-NOTICES.txt");
    JsonArray parts = components(plugin, "refdb-global.cdx.json");
    assertTrue(parts.size() > 20, parts.size() + " parts");
    for (JsonElement element : parts) {
      JsonObject part = element.getAsJsonObject();
      String name = part.get("name").getAsString() + " " + part.get("version").getAsString();
      assertTrue(notices.contains("  " + name + ": "), name + " is not in THIRD-PARTY-NOTICES.txt of java/gerrit-global");
    }
  }

  @Test
  void theClientOfTheSharedCacheHasNamesOfItsOwnAndIsInTheBill() throws IOException {
    Map<String, byte[]> whole = jars().getFirst();
    assertTrue(whole.containsKey("org/refdb/gerrit/cache/shaded/redis/clients/jedis/Connection.class"));
    boolean isNamed =
        components(whole, "refdb-gerrit.cdx.json").asList().stream()
            .anyMatch(part -> part.getAsJsonObject().get("name").getAsString().equals("jedis"));
    assertTrue(isNamed);
    assertTrue(text(whole, "THIRD-PARTY-NOTICES.txt").contains("Copyright (c) 2021-2025, Redis, inc."));
  }

  private static List<String> classesBut(Map<String, byte[]> jar, String... folders) {
    return jar.keySet().stream()
        .filter(file -> file.endsWith(".class") && Stream.of(folders).noneMatch(file::startsWith))
        .toList();
  }
}
