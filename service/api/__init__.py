"""HTTP surface: routes and middleware. `create_app(settings)` wires them."""
