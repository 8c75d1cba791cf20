import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The page may stand at any path, so its files are named relative to it. While
// it is worked on, "go run ./internal/example/serve" is its server.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: { outDir: "../dist", emptyOutDir: true, target: "es2023", modulePreload: false, assetsInlineLimit: 0, license: { fileName: "licenses.txt" }, chunkSizeWarningLimit: 1500 },
  server: { proxy: Object.fromEntries(["/assistants", "/threads", "/runs", "/store", "/info"].map((p) => [p, "http://127.0.0.1:8123"])) },
});
